//! What waits for one subscriber: in order, bounded, with a marker where something was missed.

use std::collections::VecDeque;
use std::task::Waker;

use headcount_contract::{
    ChildId, Discontinuity, DiscontinuityCause, EventKind, Gap, Observation, Signal,
};

#[derive(Debug, Default)]
pub(super) struct Subscriber {
    pub(super) queue: VecDeque<Signal>,
    /// How large they are together, about.
    pub(super) bytes: usize,
    pub(super) waker: Option<Waker>,
}

impl Subscriber {
    pub(super) fn push(&mut self, signal: Signal) {
        self.bytes = self.bytes.saturating_add(size(&signal));
        self.queue.push_back(signal);
    }
}

/// How many times the capacity a signal may fill: the end of a child, of which there is one, any.
pub(super) fn weight(signal: &Signal) -> usize {
    let Signal::Event(event) = signal else {
        return 1;
    };
    match event.kind() {
        EventKind::Terminal(_) => usize::MAX,
        EventKind::StateChanged(state) if state.is_terminal() => usize::MAX,
        EventKind::Created | EventKind::StateChanged(_) => 4,
        _ => 1,
    }
}

/// About how large a signal is in memory, in bytes.
pub(super) fn size(signal: &Signal) -> usize {
    /// For what is of one size, such as ids and times.
    const ALLOWANCE: usize = 256;
    let more = match signal {
        Signal::Event(event) => {
            let activity = event.activity().map_or(0, |text| text.as_str().len());
            event.details().as_json().len() + activity
        }
        Signal::Snapshot(snapshot) => {
            let children = snapshot.children().iter();
            let of_each = children.map(|child| ALLOWANCE + child.details().as_json().len());
            of_each.sum()
        }
        Signal::Observation(_, Observation::Output(batch)) => batch.text_bytes(),
        _ => 0,
    };
    ALLOWANCE + more
}

/// Counts a missed signal in the marker at the queue's end, or adds a marker.
pub(super) fn note_missed(queue: &mut VecDeque<Signal>, missed: &Signal) {
    if let Signal::Observation(child, observation) = missed {
        let lines = match observation {
            Observation::Output(batch) => batch.len() as u64,
            Observation::OutputMissed(lines) => *lines,
            // The next sample says more than the one that was missed.
            _ => return,
        };
        return note_missed_lines(queue, child, lines);
    }
    // A marker must follow every event that was kept, so that the hole stands where it was.
    for kept in queue.iter_mut().rev() {
        match kept {
            Signal::Discontinuity(Discontinuity {
                cause: DiscontinuityCause::Lagged { missed },
                ..
            }) => {
                *missed += 1;
                return;
            }
            Signal::Observation(..) => {}
            _ => break,
        }
    }
    queue.push_back(Signal::Discontinuity(Discontinuity {
        cause: DiscontinuityCause::Lagged { missed: 1 },
        gap: Gap::Possible,
    }));
}

/// Markers stand only at the queue's end, one a child, so their number is bounded by that of the
/// children.
fn note_missed_lines(queue: &mut VecDeque<Signal>, child: &ChildId, lines: u64) {
    for kept in queue.iter_mut().rev() {
        match kept {
            Signal::Observation(of, Observation::OutputMissed(missed)) if of == child => {
                *missed += lines;
                return;
            }
            Signal::Observation(_, Observation::OutputMissed(_)) | Signal::Discontinuity(_) => {}
            _ => break,
        }
    }
    queue.push_back(Signal::Observation(
        child.clone(),
        Observation::OutputMissed(lines),
    ));
}
