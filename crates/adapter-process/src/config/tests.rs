use serde_json::json;

use super::*;

fn error(config: serde_json::Value) -> String {
    match serde_json::from_value::<ProcessOptions>(config) {
        Err(error) => error.to_string(),
        Ok(options) => options.check().unwrap_err().to_string(),
    }
}

#[test]
fn every_wrong_key_is_named() {
    for (config, named) in [
        (json!({}), "command"),
        (json!({"command": ""}), "command"),
        (json!({"command": "a\0b"}), "command"),
        (json!({"command": "a", "comand": 1}), "comand"),
        (json!({"command": "a", "args": ["\0"]}), "args"),
        (json!({"command": "a", "name": ""}), "name"),
        (json!({"command": "a", "env": {"A=B": "c"}}), "env"),
        (json!({"command": "a", "env": {"A": "\0"}}), "env.A"),
        (json!({"command": "a", "inherit": [""]}), "inherit"),
        (json!({"command": "a", "stop_signal": "SIGTREM"}), "SIGTREM"),
        (json!({"command": "a", "grace": "5"}), "250ms"),
        (
            json!({"command": "a", "max_line_bytes": 0}),
            "max_line_bytes",
        ),
    ] {
        let error = error(config.clone());
        assert!(error.contains(named), "{config}: {error}");
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut options = ProcessOptions::new("cargo");
    options.grace = Duration::from_millis(1500);
    options.stop_signal = "INT".parse().unwrap();
    for check in [
        ReadyCheck::http(1),
        ReadyCheck::tcp(1),
        ReadyCheck::log("up"),
        ReadyCheck::exec("true", ["x"]),
        ReadyCheck::Delay(Duration::from_secs(1)),
    ] {
        options.ready = Some(Readiness::new(check));
        let text = serde_json::to_string(&options).unwrap();
        let again: ProcessOptions = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}

#[test]
fn the_child_is_named_after_the_program() {
    for (command, name) in [
        ("cargo", "cargo"),
        ("/usr/bin/env", "env"),
        ("/", "process"),
    ] {
        assert_eq!(ProcessOptions::new(command).child_name(), name);
    }
}
