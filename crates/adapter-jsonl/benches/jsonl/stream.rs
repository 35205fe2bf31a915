//! The bytes that are read: lines of about 400 bytes, as an agent's wrapper would write them.

use std::fmt::Write;

const ACTIVITIES: [&str; 4] = [
    "reading crates/contract/src/wire/json.rs",
    "running cargo nextest run --package headcount-projector",
    "editing the \\\"journal\\\" section of ARCHITECTURE.md",
    "r\u{e9}fl\u{e9}chit \u{e0} la suite",
];

/// `lines` lines over a thousand children, the same on every machine.
pub(crate) fn generate(lines: usize) -> Vec<u8> {
    let mut text = String::with_capacity(lines * 410);
    for n in 0..lines {
        let child = (n * 7919) % 1000;
        let sequence = n / 1000;
        write!(
            text,
            r#"{{"schemaVersion":1,"eventId":"evt-{n:08}","source":"worker-cli","sourceEpoch":"2026-08-24T09:15:30.000Z-5f1c","childId":"child-{child:04}","lineage":{{"rootChildId":"child-{child:04}","attempt":0,"external":false}},"#
        )
        .unwrap();
        let second = n % 60;
        let at = format!(
            "2026-08-24T09:{:02}:{second:02}.{:03}Z",
            n / 60 % 60,
            n % 1000
        );
        match (sequence, n % 8) {
            (0, _) => write!(text, r#""kind":"created","state":"created","#),
            (_, 0..=2) => write!(
                text,
                r#""kind":"activity","activity":"{}","#,
                ACTIVITIES[n % ACTIVITIES.len()]
            ),
            (_, 3) => write!(
                text,
                r#""kind":"state_changed","state":"{}","details":{{"pid":{n},"tool":"bash","usage":{{"input_tokens":{},"output_tokens":12}}}},"#,
                ["running", "waiting"][n / 8 % 2],
                n % 5000
            ),
            _ => write!(text, r#""kind":"heartbeat","#),
        }
        .unwrap();
        writeln!(
            text,
            r#""observedAt":"{at}","sequence":{sequence},"capabilities":{{"history":"known","heartbeat":"known","snapshot":"unknown","cancel":"unknown","terminalCause":"known"}}}}"#
        )
        .unwrap();
    }
    text.into_bytes()
}
