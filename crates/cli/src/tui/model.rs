//! What the table shows: the children as a tree, what needs a person first.

use std::collections::{BTreeMap, HashSet};

use headcount_contract::{
    ChildId, ChildState, HealthStatus, LiveState, Outcome, SourceId, Timestamp, Usage,
};

/// Names a child in the table.
pub(crate) type Key = (SourceId, ChildId);

/// Everything that one frame shows.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) now: Timestamp,
    pub(crate) children: Vec<ChildRow>,
    pub(crate) adapters: Vec<AdapterRow>,
}

/// One child.
#[derive(Debug, Clone)]
pub(crate) struct ChildRow {
    pub(crate) key: Key,
    pub(crate) parent: Option<ChildId>,
    pub(crate) attempt: u64,
    pub(crate) external: bool,
    pub(crate) state: ChildState,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) first_seen: Timestamp,
    pub(crate) since: Timestamp,
    pub(crate) activity: Option<(String, Timestamp)>,
    pub(crate) last_line: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) can_cancel: bool,
}

/// What makes a child's state less than certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No proof of life for longer than its source promises.
    Stale,
    /// Nothing has confirmed it since the connection was lost.
    Unproven,
    /// The source's own report of the outcome looks wrong.
    Suspect,
}

/// One adapter.
#[derive(Debug, Clone)]
pub(crate) struct AdapterRow {
    pub(crate) source: String,
    pub(crate) status: HealthStatus,
    pub(crate) message: Option<String>,
}

/// How much a child needs a person; the smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    Waiting,
    Stale,
    Failed,
    Live,
    Ended,
}

impl ChildRow {
    pub(crate) fn need(&self) -> Need {
        match self.state {
            ChildState::Live(LiveState::Waiting) => Need::Waiting,
            ChildState::Live(_) if self.doubt.is_some() => Need::Stale,
            ChildState::Live(_) => Need::Live,
            ChildState::Terminal(Outcome::Failed | Outcome::Lost) => Need::Failed,
            ChildState::Terminal(_) if self.doubt.is_some() => Need::Failed,
            ChildState::Terminal(_) => Need::Ended,
        }
    }

    /// Its state in words, with what makes it less than certain.
    pub(crate) fn state_words(&self) -> String {
        let word = match self.state {
            // Presence alone says that a process was observed, and no more.
            ChildState::CREATED if self.external => "observed",
            state => state.as_str(),
        };
        match self.doubt {
            Some(Doubt::Suspect) => format!("{word}?"),
            Some(Doubt::Stale) => format!("{word}, stale"),
            Some(Doubt::Unproven) => format!("{word}, unproven"),
            None => word.to_owned(),
        }
    }

    fn matches(&self, filter: &Filter) -> bool {
        let text = filter.text.to_lowercase();
        let wanted = match filter.states {
            StateFilter::All => true,
            StateFilter::Needy => self.need() < Need::Live,
            StateFilter::Live => !self.state.is_terminal(),
            StateFilter::Ended => self.state.is_terminal(),
        };
        let says = |field: &str| field.to_lowercase().contains(&text);
        wanted
            && (text.is_empty()
                || says(self.key.1.as_str())
                || says(self.key.0.as_str())
                || says(&self.state_words())
                || self
                    .activity
                    .as_ref()
                    .is_some_and(|(activity, _)| says(activity)))
    }
}

/// Which states are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StateFilter {
    #[default]
    All,
    Needy,
    Live,
    Ended,
}

impl StateFilter {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::All => Self::Needy,
            Self::Needy => Self::Live,
            Self::Live => Self::Ended,
            Self::Ended => Self::All,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Needy => "needing you",
            Self::Live => "live",
            Self::Ended => "ended",
        }
    }
}

/// Which children are shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) text: String,
    pub(crate) states: StateFilter,
}

/// A child at its place in the tree.
#[derive(Debug, Clone)]
pub(crate) struct Placed<'a> {
    pub(crate) row: &'a ChildRow,
    pub(crate) depth: usize,
}

impl Model {
    /// The children that pass the filter, and their ancestors, in the order they are shown.
    pub(crate) fn placed(&self, filter: &Filter) -> Vec<Placed<'_>> {
        let tree = Tree::new(&self.children);
        let mut placed = Vec::with_capacity(self.children.len());
        // An own stack: a hostile chain of parents must not overflow ours.
        let mut stack: Vec<(usize, usize)> = tree.roots.iter().rev().map(|&at| (at, 0)).collect();
        let shown = tree.shown(&self.children, filter);
        while let Some((at, depth)) = stack.pop() {
            if !shown[at] {
                continue;
            }
            placed.push(Placed {
                row: &self.children[at],
                depth,
            });
            stack.extend(
                tree.children[at]
                    .iter()
                    .rev()
                    .map(|&child| (child, depth + 1)),
            );
        }
        placed
    }

    /// How many children there are of each need.
    pub(crate) fn count(&self, needs: impl Fn(Need) -> bool) -> usize {
        self.children
            .iter()
            .filter(|child| needs(child.need()))
            .count()
    }
}

struct Tree {
    roots: Vec<usize>,
    children: Vec<Vec<usize>>,
    /// Roots before their children.
    order: Vec<usize>,
    parent: Vec<Option<usize>>,
}

impl Tree {
    fn new(rows: &[ChildRow]) -> Self {
        let by_key: BTreeMap<_, _> = rows
            .iter()
            .enumerate()
            .map(|(at, r)| (&r.key, at))
            .collect();
        let mut parent: Vec<Option<usize>> = rows
            .iter()
            .map(|row| {
                let parent = row.parent.clone()?;
                by_key.get(&(row.key.0.clone(), parent)).copied()
            })
            .collect();
        cut_rings(&mut parent);
        let mut children = vec![Vec::new(); rows.len()];
        for (at, parent) in parent.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(at);
            }
        }
        let mut order: Vec<usize> = (0..rows.len()).filter(|&at| parent[at].is_none()).collect();
        let mut next = 0;
        while next < order.len() {
            order.extend(children[order[next]].iter().copied());
            next += 1;
        }
        // A parent is as needy as the neediest below it, so that nothing urgent hides in a branch.
        let mut need: Vec<Need> = rows.iter().map(ChildRow::need).collect();
        for &at in order.iter().rev() {
            if let Some(parent) = parent[at] {
                need[parent] = need[parent].min(need[at]);
            }
        }
        let place = |&at: &usize| (need[at], rows[at].first_seen, rows[at].key.clone());
        let mut roots: Vec<usize> = (0..rows.len()).filter(|&at| parent[at].is_none()).collect();
        roots.sort_by_cached_key(place);
        for below in &mut children {
            below.sort_by_cached_key(place);
        }
        Self {
            roots,
            children,
            order,
            parent,
        }
    }

    fn shown(&self, rows: &[ChildRow], filter: &Filter) -> Vec<bool> {
        let mut shown: Vec<bool> = rows.iter().map(|row| row.matches(filter)).collect();
        for &at in self.order.iter().rev() {
            if let Some(parent) = self.parent[at] {
                shown[parent] |= shown[at];
            }
        }
        shown
    }
}

/// Sources can claim rings of parents; each is cut where it is first entered.
fn cut_rings(parent: &mut [Option<usize>]) {
    let mut clear = HashSet::new();
    for start in 0..parent.len() {
        let mut path = HashSet::new();
        let mut at = start;
        while !clear.contains(&at) && path.insert(at) {
            match parent[at] {
                Some(up) if path.contains(&up) => parent[at] = None,
                Some(up) => at = up,
                None => break,
            }
        }
        clear.extend(path);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn at(second: i64) -> Timestamp {
        Timestamp::from_unix(1_800_000_000 + second, 0).unwrap()
    }

    pub(crate) fn row(id: &str, parent: Option<&str>, state: ChildState) -> ChildRow {
        ChildRow {
            key: (SourceId::new("s").unwrap(), ChildId::new(id).unwrap()),
            parent: parent.map(|p| ChildId::new(p).unwrap()),
            attempt: 0,
            external: false,
            state,
            doubt: None,
            first_seen: at(0),
            since: at(0),
            activity: None,
            last_line: None,
            usage: None,
            can_cancel: true,
        }
    }

    fn tree(rows: Vec<ChildRow>, filter: &Filter) -> Vec<String> {
        let model = Model {
            now: at(60),
            children: rows,
            adapters: vec![],
        };
        let placed = model.placed(filter);
        placed
            .iter()
            .map(|p| format!("{}{}", "  ".repeat(p.depth), p.row.key.1))
            .collect()
    }

    #[test]
    fn what_needs_a_person_comes_first_with_its_tree() {
        let stale = ChildRow {
            doubt: Some(Doubt::Stale),
            ..row("d", None, ChildState::RUNNING)
        };
        let rows = vec![
            row("a", None, ChildState::COMPLETED),
            row("b", None, ChildState::RUNNING),
            row("b2", Some("b"), ChildState::WAITING),
            row("b1", Some("b"), ChildState::RUNNING),
            row("c", None, ChildState::FAILED),
            stale,
        ];
        assert_eq!(
            tree(rows, &Filter::default()),
            ["b", "  b2", "  b1", "d", "c", "a"]
        );
    }

    #[test]
    fn a_filter_keeps_the_ancestors_of_what_it_finds() {
        let rows = vec![
            row("top", None, ChildState::RUNNING),
            row("leaf", Some("top"), ChildState::FAILED),
            row("other", None, ChildState::RUNNING),
        ];
        let text = Filter {
            text: "LEAF".into(),
            ..Filter::default()
        };
        assert_eq!(tree(rows.clone(), &text), ["top", "  leaf"]);
        let needy = Filter {
            states: StateFilter::Needy,
            ..Filter::default()
        };
        assert_eq!(tree(rows, &needy), ["top", "  leaf"]);
    }

    #[test]
    fn rings_of_parents_are_cut_and_everybody_is_shown() {
        let rows = vec![
            row("a", Some("c"), ChildState::RUNNING),
            row("b", Some("a"), ChildState::RUNNING),
            row("c", Some("b"), ChildState::RUNNING),
            row("d", Some("nobody"), ChildState::RUNNING),
        ];
        assert_eq!(tree(rows, &Filter::default()).len(), 4);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_parents_is_no_trouble() {
        let rows: Vec<_> = (0..100_000)
            .map(|n: u32| {
                let parent = n.checked_sub(1).map(|p| p.to_string());
                row(&n.to_string(), parent.as_deref(), ChildState::RUNNING)
            })
            .collect();
        let model = Model {
            now: at(60),
            children: rows,
            adapters: vec![],
        };
        let placed = model.placed(&Filter::default());
        assert_eq!(placed.last().map(|last| last.depth), Some(99_999));
    }

    #[test]
    fn an_external_child_is_observed_and_a_stale_one_says_so() {
        let external = ChildRow {
            external: true,
            ..row("a", None, ChildState::CREATED)
        };
        assert_eq!(external.state_words(), "observed");
        let stale = ChildRow {
            doubt: Some(Doubt::Stale),
            ..row("a", None, ChildState::RUNNING)
        };
        assert_eq!(stale.state_words(), "running, stale");
        let suspect = ChildRow {
            doubt: Some(Doubt::Suspect),
            ..row("a", None, ChildState::COMPLETED)
        };
        assert_eq!(suspect.state_words(), "completed?");
    }
}
