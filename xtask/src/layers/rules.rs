//! The allowed arrows. Anything else is a fault.

use super::graph::{Graph, Member};

/// What one crate, or each crate of one family, may depend on.
struct Rule {
    /// A package name; one that ends in `*` stands for a family.
    who: &'static str,
    /// Which of ours its manifest may name; likewise.
    may: &'static [&'static str],
    /// Which of theirs must not be built for it, however far away.
    never: &'static [&'static str],
}

/// Runtimes, clocks, the operating system, the network, link-time registration: nothing that a
/// description or a fold of facts needs.
const PURE: &[&str] = &[
    "tokio",
    "mio",
    "futures-util",
    "inventory",
    "sysinfo",
    "reqwest",
    "hyper",
    "libc",
    "rustix",
    "jiff",
    "time",
    "chrono",
    "web-time",
    "getrandom",
    "fastrand",
    "tracing",
];

const RULES: &[Rule] = &[
    Rule {
        who: "headcount-contract",
        may: &[],
        never: PURE,
    },
    Rule {
        who: "headcount-projector",
        may: &["headcount-contract"],
        never: PURE,
    },
    Rule {
        who: "headcount-registry",
        may: &["headcount-contract"],
        never: &["tokio", "sysinfo", "reqwest"],
    },
    Rule {
        who: "headcount-adapter-kit",
        may: &["headcount-contract"],
        never: &["inventory", "sysinfo", "reqwest"],
    },
    // The cases about truthfulness need the fold that hosts use, hence the projector.
    Rule {
        who: "headcount-conformance",
        may: &["headcount-contract", "headcount-projector"],
        never: &["inventory", "sysinfo", "reqwest"],
    },
    Rule {
        who: "headcount-adapter-*",
        may: &[
            "headcount-contract",
            "headcount-registry",
            "headcount-adapter-kit",
        ],
        never: &[],
    },
    Rule {
        who: "headcount",
        may: &[
            "headcount-contract",
            "headcount-registry",
            "headcount-projector",
            "headcount-adapter-kit",
            "headcount-adapter-*",
        ],
        never: &[],
    },
    Rule {
        who: "headcount-cli",
        may: &["headcount", "headcount-contract"],
        never: &[],
    },
    Rule {
        who: "xtask",
        may: &["headcount-contract"],
        never: &["tokio"],
    },
    Rule {
        who: "headcount-tests",
        may: &["headcount*"],
        never: &[],
    },
];

/// Outside crates that no manifest of ours may name, with the reason.
const UNWANTED: &[(&str, &str)] = &[
    ("sonic-rs", "it aborts the process on deep nesting"),
    ("nix", "it has no pidfd_open; rustix has"),
    ("command-group", "it signals groups by number"),
    ("async-pidfd", "unmaintained"),
    ("pidfd", "unmaintained"),
];

/// The host names adapters, and only behind features.
const HOST: &str = "headcount";
/// The one crate that knows how registrations are collected at link time.
const COLLECTOR: (&str, &str) = ("headcount-registry", "inventory");

/// Every arrow that is not allowed, one sentence each, in the order of the crates' names.
pub(super) fn faults(graph: &Graph) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, member) in &graph.members {
        match rule_of(name) {
            Some(rule) => judge(graph, name, member, rule, &mut faults),
            None => faults.push(format!("{name} has no rule; give it one in {}", file!())),
        }
        for (crate_name, why) in UNWANTED {
            if member.direct.contains(*crate_name) {
                faults.push(format!("{name} -> {crate_name} is not wanted: {why}"));
            }
        }
        if name != COLLECTOR.0 && member.direct.contains(COLLECTOR.1) {
            faults.push(format!(
                "{name} -> {}: only {} knows it",
                COLLECTOR.1, COLLECTOR.0
            ));
        }
    }
    faults
}

fn judge(graph: &Graph, name: &str, member: &Member, rule: &Rule, faults: &mut Vec<String>) {
    let ours = member
        .direct
        .iter()
        .filter(|name| graph.members.contains_key(*name));
    for dependency in ours {
        if !rule.may.iter().any(|may| matches(may, dependency)) {
            faults.push(format!("{name} -> {dependency} is no allowed arrow"));
        } else if name == HOST && is_adapter(dependency) && !member.optional.contains(dependency) {
            faults.push(format!(
                "{name} -> {dependency} must be optional, behind its feature"
            ));
        }
    }
    for theirs in rule.never {
        if member.reached.contains(*theirs) {
            faults.push(format!(
                "{name} is built with {theirs}, which must stay out of it"
            ));
        }
    }
}

/// The rule of a crate: its own, or its family's.
fn rule_of(name: &str) -> Option<&'static Rule> {
    let own = RULES.iter().find(|rule| rule.who == name);
    own.or_else(|| RULES.iter().find(|rule| matches(rule.who, name)))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => pattern == name,
    }
}

fn is_adapter(name: &str) -> bool {
    name.starts_with("headcount-adapter-") && name != "headcount-adapter-kit"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph in which every member is allowed what it has.
    fn sound() -> Graph {
        let mut graph = Graph::default();
        for (name, direct) in [
            ("headcount-contract", &["serde"][..]),
            ("headcount-projector", &["headcount-contract"]),
            ("headcount-registry", &["headcount-contract", "inventory"]),
            ("headcount-adapter-kit", &["headcount-contract", "tokio"]),
            (
                "headcount-conformance",
                &["headcount-contract", "headcount-projector"],
            ),
            (
                "headcount-adapter-process",
                &["headcount-registry", "headcount-adapter-kit"],
            ),
            ("headcount-adapter-jsonl", &["headcount-registry"]),
            (
                "headcount",
                &[
                    "headcount-registry",
                    "headcount-projector",
                    "headcount-adapter-process",
                ],
            ),
            ("headcount-cli", &["headcount", "headcount-contract"]),
            (
                "headcount-tests",
                &[
                    "headcount",
                    "headcount-conformance",
                    "headcount-adapter-process",
                ],
            ),
            ("xtask", &["headcount-contract"]),
        ] {
            let mut member = Member::default();
            member.direct.extend(direct.iter().map(ToString::to_string));
            member.reached.clone_from(&member.direct);
            graph.members.insert(name.to_owned(), member);
        }
        let host = graph.members.get_mut("headcount").unwrap();
        host.optional.insert("headcount-adapter-process".to_owned());
        graph
    }

    /// What is said of the sound graph after one direct dependency was added.
    fn faults_after(from: &str, to: &str) -> Vec<String> {
        let mut graph = sound();
        let member = graph.members.entry(from.to_owned()).or_default();
        member.direct.insert(to.to_owned());
        member.reached.insert(to.to_owned());
        faults(&graph)
    }

    #[test]
    fn a_sound_graph_has_no_fault() {
        assert_eq!(faults(&sound()), Vec::<String>::new());
    }

    #[test]
    fn every_forbidden_arrow_is_a_fault() {
        for (from, to) in [
            ("headcount-contract", "headcount-registry"),
            ("headcount-projector", "headcount-registry"),
            ("headcount-projector", "headcount-adapter-jsonl"),
            ("headcount-registry", "headcount-adapter-process"),
            ("headcount-registry", "headcount-adapter-kit"),
            ("headcount-adapter-kit", "headcount-registry"),
            ("headcount-conformance", "headcount-registry"),
            ("headcount-conformance", "headcount-adapter-kit"),
            ("headcount-conformance", "headcount-adapter-process"),
            ("headcount-adapter-process", "headcount-adapter-jsonl"),
            ("headcount-adapter-process", "headcount-projector"),
            ("headcount-adapter-process", "headcount"),
            ("headcount", "headcount-conformance"),
            ("headcount", "headcount-cli"),
            ("headcount-cli", "headcount-projector"),
            ("headcount-cli", "headcount-adapter-process"),
            ("xtask", "headcount"),
        ] {
            assert_eq!(
                faults_after(from, to),
                [format!("{from} -> {to} is no allowed arrow")]
            );
        }
    }

    #[test]
    fn a_runtime_or_a_clock_far_below_a_pure_crate_is_a_fault() {
        for name in ["headcount-contract", "headcount-projector"] {
            for theirs in ["tokio", "sysinfo", "reqwest", "jiff", "libc"] {
                let mut graph = sound();
                let member = graph.members.get_mut(name).unwrap();
                member.reached.insert(theirs.to_owned());
                assert_eq!(
                    faults(&graph),
                    [format!(
                        "{name} is built with {theirs}, which must stay out of it"
                    )]
                );
            }
        }
    }

    #[test]
    fn only_the_registry_knows_inventory() {
        assert_eq!(
            faults_after("headcount-adapter-process", "inventory"),
            ["headcount-adapter-process -> inventory: only headcount-registry knows it"]
        );
    }

    #[test]
    fn the_host_asks_for_adapters_by_feature_alone() {
        assert_eq!(
            faults_after("headcount", "headcount-adapter-jsonl"),
            ["headcount -> headcount-adapter-jsonl must be optional, behind its feature"]
        );
    }

    #[test]
    fn unwanted_crates_are_named_with_the_reason() {
        assert_eq!(
            faults_after("headcount-adapter-jsonl", "sonic-rs"),
            [
                "headcount-adapter-jsonl -> sonic-rs is not wanted: it aborts the process on deep nesting"
            ]
        );
    }

    #[test]
    fn a_crate_without_a_rule_is_a_fault() {
        let said = faults_after("stranger", "serde");
        assert!(said[0].starts_with("stranger has no rule"), "{said:?}");
    }

    #[test]
    fn a_new_adapter_falls_under_the_rule_of_its_family() {
        assert_eq!(
            faults_after("headcount-adapter-new", "headcount-registry"),
            Vec::<String>::new()
        );
        assert_eq!(faults_after("headcount-adapter-new", "headcount").len(), 1);
    }
}
