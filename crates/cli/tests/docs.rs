//! The tour for people at a terminal does what it says.

use std::path::Path;

#[test]
fn every_command_of_the_tour_prints_what_is_shown() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    // Its commands write files beside it, so it is run from a copy.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(
        docs.join("at-the-terminal.md"),
        copy.path().join("at-the-terminal.md"),
    )
    .unwrap();
    let tour = std::fs::read_to_string(docs.join("at-the-terminal.md")).unwrap();
    let folder = copy.path().join("at-the-terminal.in");
    std::fs::create_dir(&folder).unwrap();
    for file in std::fs::read_dir(docs.join("at-the-terminal.in")).unwrap() {
        let file = file.unwrap();
        // Whoever reads the tour can write the file that its commands read.
        let content = std::fs::read_to_string(file.path()).unwrap();
        assert!(
            tour.contains(&format!("\n{}\n```\n", content.trim_end())),
            "the tour does not show {:?}",
            file.file_name()
        );
        std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    trycmd::TestCases::new()
        .register_bin("headcount", Path::new(env!("CARGO_BIN_EXE_headcount")))
        .case(copy.path().join("at-the-terminal.md"))
        .run();
}
