//! Waiting for a person's approval. A gateway says which command waits, not which child.

use headcount_contract::{ChildId, ChildState, EventKind, Timestamp};
use serde_json::{Map, Value, json};

use super::Translator;
use super::child::{cut, string};

impl Translator {
    /// A session asks a person to approve a command: if exactly one running child of that session
    /// was last given this very command, it is the one that waits.
    pub(super) fn approval_requested(
        &mut self,
        session: Option<&str>,
        payload: &Map<String, Value>,
        at: Timestamp,
    ) {
        let command = string(payload, "command");
        let candidates: Vec<ChildId> = match command {
            None => Vec::new(),
            Some(command) => self
                .live
                .iter()
                .filter(|id| {
                    self.children.get(*id).is_some_and(|child| {
                        child.state == ChildState::RUNNING
                            && child.session.as_deref() == session
                            && child.last_command.as_deref() == Some(command)
                    })
                })
                .cloned()
                .collect(),
        };
        let waits_for = json!({ "approval": command.map(cut) });
        match &candidates[..] {
            [one] => {
                if let Some(child) = self.children.get_mut(one) {
                    child.state = ChildState::WAITING;
                }
                let details = Map::from_iter([
                    ("inferred".to_owned(), json!(true)),
                    ("waitsFor".to_owned(), waits_for),
                ]);
                let waiting = EventKind::StateChanged(ChildState::WAITING);
                self.emit(one, waiting, details, None, at);
            }
            // It may be the session itself that asks.
            [] => self.count("approvals_of_no_known_child"),
            several => {
                self.count("approvals_of_several_children");
                for id in several {
                    let details = Map::from_iter([
                        ("problem".to_owned(), json!("approval_of_one_of_several")),
                        ("candidates".to_owned(), json!(several.len())),
                        ("waitsFor".to_owned(), waits_for.clone()),
                    ]);
                    self.emit(id, EventKind::Diagnostic(None), details, None, at);
                }
            }
        }
    }

    /// An approval was given or refused: who waited for it goes on.
    pub(super) fn approval_resolved(
        &mut self,
        session: Option<&str>,
        payload: &Map<String, Value>,
        at: Timestamp,
    ) {
        let command = string(payload, "command");
        for id in self.live.clone() {
            let waits = self.children.get(&id).is_some_and(|child| {
                child.state == ChildState::WAITING
                    && child.session.as_deref() == session
                    && (command.is_none() || child.last_command.as_deref() == command)
            });
            if waits {
                self.bring_up(&id, false, at);
            }
        }
    }
}
