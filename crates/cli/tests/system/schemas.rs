//! The committed schemas are the ones that the program prints.

use std::path::Path;

use crate::program::{headcount, text};

#[test]
fn the_program_prints_what_is_committed() {
    for name in ["event", "snapshot", "fleet"] {
        let printed = headcount(&["schema", name]).output().unwrap();
        assert_eq!(
            printed.status.code(),
            Some(0),
            "{name}: {}",
            text(&printed.stderr)
        );
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{name}.json"));
        let committed = std::fs::read_to_string(&path).unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert!(
            json(&text(&printed.stdout)) == json(&committed),
            "schemas/{name}.json is stale: `cargo xtask schema` writes it anew"
        );
    }
}
