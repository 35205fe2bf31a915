//! Fleet files: what is accepted, and what is said of each kind of mistake.
#![cfg(all(feature = "process", feature = "jsonl"))]
#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts tests, not the helpers of tests

use headcount::{Fleet, Host, registry};

/// What a wrong file is told, with the place.
fn told(text: &str) -> String {
    let error = Fleet::parse(text).expect_err("it is wrong");
    format!("{error}\n  {}", error.text)
}

/// Where a wrong file is told to be wrong: line, column and key.
fn place(text: &str) -> (usize, usize, Option<String>) {
    let error = Fleet::parse(text).expect_err("it is wrong");
    (error.line, error.column, error.key)
}

const GOOD: &str = r#"
# Two builds and a stream.
[[adapter]]
kind = "process"
source = "build"
command = "cargo"
args = ["build"]
restart = { when = "on_failure" }

[[adapter]]
kind = "process"
command = "sleep"

[[adapter]]
kind = "jsonl"
path = "/var/log/agents.jsonl"
only_sources = ["far"]
"#;

#[test]
fn a_file_names_adapters_of_several_kinds() {
    let fleet = Fleet::parse(GOOD)
        .map_err(|error| error.to_string())
        .unwrap();
    let kinds: Vec<_> = fleet
        .adapters()
        .iter()
        .map(|adapter| adapter.kind.as_str())
        .collect();
    assert_eq!(kinds, ["process", "process", "jsonl"]);
    assert_eq!(
        fleet.adapters()[0].spec.source.as_ref().unwrap().as_str(),
        "build"
    );
    assert_eq!(fleet.adapters()[2].only_sources.as_ref().unwrap().len(), 1);
    Host::builder().fleet(fleet).build().unwrap();
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let process = "[[adapter]]\nkind = \"process\"\n";
    let table = [
        (
            format!("{process}comand = \"x\"\ncommand = \"x\"\n"),
            "line 3, column 1: unknown field `comand`, expected one of `command`, `args`, ",
        ),
        (
            "[[adapter]]\nkind = \"proces\"\n".into(),
            "line 2, column 8: there is no adapter of kind \"proces\"; this program has ",
        ),
        (
            "adapter = 7\n".into(),
            "line 1, column 11: `adapter` is a list of tables: write `[[adapter]]`",
        ),
        (
            "[[adaptor]]\nkind = \"process\"\n".into(),
            "line 1, column 3: there is no key `adaptor` here; a fleet file has `[[adapter]]` tables",
        ),
        (
            "[[adapter]]\nkind = process\n".into(),
            "line 2, column 8: string values must be quoted, expected literal string",
        ),
        (
            format!("{process}command = \"x\"\nonly_sources = [\"y\"]\n"),
            "line 4, column 16: `process` is a source itself; `only_sources` is for adapters that \
             carry others' events",
        ),
        (
            String::new(),
            "line 1, column 1: a fleet file names at least one adapter: `[[adapter]]`, and its `kind`",
        ),
        (process.into(), "line 1, column 1: missing field `command`"),
    ];
    for (text, expected) in table {
        let said = told(&text);
        assert!(said.starts_with(expected), "{text:?}\n  said {said:?}");
    }
}

#[test]
fn the_place_is_that_of_the_key() {
    let process =
        |rest: &str| format!("# é\n[[adapter]]\nkind = \"process\"\ncommand = \"x\"\n{rest}\n");
    for (rest, line, column, key) in [
        ("grace = \"soon\"", 5, 1, "grace"),
        ("grace = 7", 5, 1, "grace"),
        ("stop_signal = \"SIGNOPE\"", 5, 1, "stop_signal"),
        ("  max_line_bytes = \"many\"", 5, 3, "max_line_bytes"),
        ("args = \"build\"", 5, 1, "args"),
        ("restart = { when = \"perhaps\" }", 5, 13, "restart.when"),
        (
            "[adapter.restart]\nwhen = \"always\"\nlimits = 3",
            7,
            1,
            "restart.limits",
        ),
        ("source = \"\"", 5, 10, "source"),
        ("source = 1979-05-27", 5, 10, "source"),
        ("command2 = 0xffff_ffff_ffff_ffff_ffff", 5, 12, "command2"),
        ("sample_interval = nan", 5, 19, "sample_interval"),
    ] {
        assert_eq!(
            place(&process(rest)),
            (line, column, Some(key.to_owned())),
            "{rest}"
        );
    }
}

#[test]
fn a_wrong_key_in_a_later_adapter_is_found_there() {
    let (line, column, key) = place(
        "[[adapter]]\nkind = \"process\"\ncommand = \"x\"\n\n[[adapter]]\nkind = \"jsonl\"\npathe = \"x\"\n",
    );
    assert_eq!((line, column, key.as_deref()), (7, 1, Some("pathe")));
}

#[test]
fn the_schema_has_every_kind_with_the_hosts_keys_and_no_dangling_reference() {
    let schema = Fleet::schema(&registry().unwrap());
    let kinds = schema["properties"]["adapter"]["items"]["oneOf"]
        .as_array()
        .unwrap();
    assert_eq!(kinds.len(), registry().unwrap().iter().len());
    for kind in kinds {
        assert!(kind["properties"]["kind"]["const"].is_string(), "{kind}");
        assert!(kind["properties"]["source"].is_object());
    }
    let text = schema.to_string();
    for reference in text.split("\"$ref\":\"#/$defs/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schema["$defs"][name].is_object(), "{name} is not defined");
    }
}
