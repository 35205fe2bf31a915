use super::*;

#[allow(clippy::needless_pass_by_value)] // literals are handed over
fn error(config: Value) -> String {
    let checked = ProcessOptions::read(&config).and_then(|options| options.check());
    checked.unwrap_err().to_string()
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
        (
            json!({"command": "a", "max_line_bytes": 0}),
            "max_line_bytes",
        ),
        (json!({"command": "a", "lifecycle_fd": 2}), "lifecycle_fd"),
        (
            json!({"command": "a", "restart": {"delay": "2m"}}),
            "restart.max_delay",
        ),
        (
            json!({"command": "a", "ready": {"check": {"http": {"port": 0}}}}),
            "ready.check.http.port",
        ),
        (
            json!({"command": "a", "ready": {"check": {"http": {"port": 1, "path": "up"}}}}),
            "ready.check.http.path",
        ),
        (
            json!({"command": "a", "ready": {"check": {"http": {"port": 1, "request_timeout": "0s"}}}}),
            "ready.check.http.request_timeout",
        ),
        (
            json!({"command": "a", "ready": {"check": {"tcp": {"port": 0}}}}),
            "ready.check.tcp.port",
        ),
        (
            json!({"command": "a", "ready": {"check": {"log": {"regex": "("}}}}),
            "ready.check.log.regex",
        ),
        (
            json!({"command": "a", "ready": {"check": {"log": {}}}}),
            "ready.check.log",
        ),
        (
            json!({"command": "a", "ready": {"check": {"exec": {"command": ""}}}}),
            "ready.check.exec",
        ),
        (
            json!({"command": "a", "ready": {"check": {"exec": {"command": "a", "request_timeout": "0s"}}}}),
            "ready.check.exec.request_timeout",
        ),
    ] {
        let error = error(config.clone());
        assert!(error.contains(named), "{config}: {error}");
    }
}

/// Every key that there is, with a value that none takes.
#[test]
fn a_value_that_cannot_be_read_names_its_key() {
    let schema = schemars::schema_for!(ProcessOptions).to_value();
    let keys = schema["properties"].as_object().unwrap();
    assert_eq!(keys.len(), 20, "{keys:?}");
    for key in keys.keys() {
        let mut config = json!({"command": "a"});
        config[key] = json!({"no such": "value"});
        // Any text is a variable.
        if key == "env" {
            config[key] = json!({"A": 1});
        }
        let error = error(config);
        assert!(error.contains(&format!("key: {key}")), "{key}: {error}");
    }
    for (config, why) in [
        (json!({"command": "a", "grace": "5"}), "250ms"),
        (
            json!({"command": "a", "stop_signal": "SIGTREM"}),
            "SIGTERM, SIGINT",
        ),
        (
            json!({"command": "a", "ready": {"check": {"delay": 5}}}),
            "key: ready",
        ),
    ] {
        let error = error(config);
        assert!(error.contains(why), "{error}");
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
