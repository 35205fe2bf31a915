//! Which life of a gateway is spoken of, and what its end means.

use headcount_adapter_kit::EventMint;
use headcount_contract::{
    Capabilities, Discontinuity, DiscontinuityCause, Gap, Outcome, Sequence, SequenceScope, Signal,
    SourceEpoch, SourceIdentity, Timestamp,
};
use serde_json::{Map, Value, json};

use super::Translator;

/// What the announcement of a gateway means for what was known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Nothing was known.
    First,
    /// It is the same gateway process.
    SameLife,
    /// It is another process: what the other one ran has ended.
    NewLife,
    /// It may be either.
    Unproven,
}

impl Translator {
    /// A connection has been made: unless the gateway tells its epoch, this one is its own.
    pub(crate) fn connected(&mut self, fallback: SourceEpoch, first: Sequence) {
        self.pending = Some((fallback, first));
    }

    /// The gateway says which life it lives, or has begun to speak without saying so.
    pub(super) fn ready(&mut self, told: Option<&str>) {
        let told = told.and_then(|epoch| SourceEpoch::new(epoch).ok());
        let current = &self.mint.source().epoch;
        let same = told.as_ref().is_some_and(|told| told == current) && self.epoch_is_told;
        let (fallback, first) = match self.pending.take() {
            Some(pending) => pending,
            // It announces itself again on the same connection.
            None => (current.clone(), Sequence::ZERO),
        };
        let ready = match (&told, self.open) {
            (_, false) => Ready::First,
            _ if same => Ready::SameLife,
            (Some(_), true) if self.epoch_is_told => Ready::NewLife,
            _ => Ready::Unproven,
        };
        self.open = true;
        self.out.ready = Some(ready);
        for child in self.children.values_mut() {
            child.seen_in_events = false;
        }
        if ready == Ready::SameLife {
            return;
        }
        self.epoch_is_told = told.is_some();
        let epoch = told.unwrap_or(fallback);
        if ready == Ready::First || epoch != *current {
            let identity = SourceIdentity::new(self.source.clone(), epoch);
            self.mint = EventMint::new(identity, Capabilities::UNKNOWN, SequenceScope::Child)
                .beginning_at(first);
        }
        self.verified = Capabilities::UNKNOWN;
        self.listed_some = false;
        self.isolated = false;
        self.sessions.retain(|_, session| session.begin_life(ready));
        for child in self.children.values_mut() {
            child.sequence = None;
        }
        match ready {
            Ready::NewLife => {
                self.discontinuity(DiscontinuityCause::SourceRestarted, Gap::Possible);
            }
            Ready::Unproven => self.discontinuity(DiscontinuityCause::Reconnected, Gap::Possible),
            Ready::First | Ready::SameLife => {}
        }
    }

    /// Says that events may be missing here, or cannot be.
    pub(crate) fn discontinuity(&mut self, cause: DiscontinuityCause, gap: Gap) {
        let discontinuity = Discontinuity { cause, gap };
        self.out.signals.push(Signal::Discontinuity(discontinuity));
    }

    /// The gateway process has ended, and with it every child that it ran: what has not ended is
    /// lost. What evidence there is has to be told first (see [`Self::conclude`]).
    pub(crate) fn gateway_gone(
        &mut self,
        basis: &'static str,
        facts: &Map<String, Value>,
        at: Timestamp,
    ) {
        for id in self.live.clone() {
            let mut details = Map::from_iter([("basis".to_owned(), json!(basis))]);
            details.extend(facts.clone());
            self.end(&id, Outcome::Lost, details, at);
        }
    }
}
