//! Pages that are written by hand around what a program prints.

use std::path::Path;

#[test]
fn the_page_of_rules_is_what_the_kit_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md");
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        text.ends_with(&headcount_conformance::rules()),
        "docs/conformance.md is out of date: replace what follows its introduction by the output of \
         `cargo test -p headcount-tests --test conformance_stub -- --rules`"
    );
}
