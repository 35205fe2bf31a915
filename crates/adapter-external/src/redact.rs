//! Takes the secrets out of command lines (rule W6): they are shown and journaled, and every user
//! of the machine could pass one as an argument.

use headcount_contract::{Details, REDACTED, is_secret_key};
use serde_json::Value;

/// The most bytes of a command line that are kept, all arguments together.
const MAX_BYTES: usize = 4096;

/// A command line that can be shown.
///
/// # Behavior
///
/// - Values of options and variables with secret names are replaced: `--token x`, `--token=x`,
///   `API_KEY=x`, `-Dpassword=x`, `Authorization: Bearer x`, JSON members, query parameters.
/// - User names and passwords in addresses are replaced, and words that begin as well-known keys do.
/// - What is replaced too often does no harm; what is cut ends with `…`.
///
/// ```
/// use headcount_adapter_external::redact_command;
/// let shown = redact_command(["curl", "--token", "hunter2", "https://ada:pw@example.org/?key=1"]);
/// assert_eq!(shown, ["curl", "--token", "[redacted]", "https://[redacted]@example.org/?key=[redacted]"]);
/// ```
pub fn redact_command<A: AsRef<str>>(arguments: impl IntoIterator<Item = A>) -> Vec<String> {
    let mut shown = Vec::new();
    let mut left = MAX_BYTES;
    let mut value_of_secret = false;
    for argument in arguments {
        let argument = argument.as_ref();
        let mut text = if value_of_secret && !looks_like_option(argument) {
            REDACTED.to_owned()
        } else {
            redact_argument(argument)
        };
        value_of_secret = names_secret_option(argument);
        if text.len() >= left {
            text.truncate(text.floor_char_boundary(left));
            text.push('…');
            shown.push(text);
            break;
        }
        // An empty argument counts too: there may be very many.
        left = left.saturating_sub(text.len() + 1);
        shown.push(text);
    }
    shown
}

/// Whether the next argument is the value of a secret.
fn names_secret_option(argument: &str) -> bool {
    let name = argument.trim_start_matches('-');
    let is_option = name.len() < argument.len() && !name.is_empty();
    // `-H "Authorization: …"` and `-u user:password` of curl and its like.
    (is_option && !name.contains(['=', ':']) && is_secret_name(name)) || matches!(argument, "-u" | "--user" | "--proxy-user")
        // `Bearer` as an argument of its own, also with the colon before it.
        || argument.eq_ignore_ascii_case("bearer")
        || argument.strip_suffix(':').is_some_and(is_secret_name)
}

fn looks_like_option(argument: &str) -> bool {
    argument.starts_with("--") && argument.len() > 2 && !argument.contains('=')
}

fn redact_argument(argument: &str) -> String {
    if argument.starts_with(['{', '['])
        && let Some(text) = redact_json(argument)
    {
        return text;
    }
    redact_text(argument)
}

/// JSON given as an argument, redacted as details are.
fn redact_json(argument: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(argument).ok()?;
    redact_value(&mut value);
    // Keys that rule W6 knows are covered once more by its own code.
    match value {
        Value::Object(map) => Some(Details::from(map).as_json().to_owned()),
        other => Some(other.to_string()),
    }
}

fn redact_value(value: &mut Value) {
    match value {
        Value::String(text) => *text = redact_text(text),
        Value::Array(items) => items.iter_mut().for_each(redact_value),
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                if is_secret_name(key) {
                    *member = REDACTED.into();
                } else {
                    redact_value(member);
                }
            }
        }
        _ => {}
    }
}

/// Text that may hold several names with values: assignments, headers, addresses, words.
fn redact_text(text: &str) -> String {
    // `--token=…`, `API_KEY=…`, `Authorization: …`: all that follows is the value.
    let name_end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, value) = text.split_at(name_end);
    if value.starts_with(['=', ':']) && !value.starts_with("://") && is_secret_name(name) {
        let start = value.find(|c| !matches!(c, '=' | ':' | ' '));
        let kept = &value[..start.unwrap_or(value.len())];
        return format!(
            "{name}{kept}{}",
            if start.is_some() { REDACTED } else { "" }
        );
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if !is_name(next) {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        out.push_str(if is_known_key(word) { REDACTED } else { word });
        rest = after;
        if let Some(after) = rest.strip_prefix("://") {
            out.push_str("://");
            rest = redact_authority(after, &mut out);
            continue;
        }
        let assigned = after_assignment(rest).filter(|_| is_secret_name(word));
        let spelled = rest.strip_prefix(' ').filter(|_| is_scheme(word));
        if let Some(value) = assigned.or(spelled) {
            out.push_str(&rest[..rest.len() - value.len()]);
            rest = redact_value_in_text(value, &mut out);
        }
    }
    out
}

/// What follows `=` or `:`, with white space around it and the quote that ends a name in JSON.
fn after_assignment(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
    let value = rest.trim_start_matches(' ').strip_prefix(['=', ':'])?;
    Some(value.trim_start_matches(' '))
}

/// Writes a secret's mark in place of the value that `rest` begins with; returns what follows.
fn redact_value_in_text<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    if let Some(quote) = quote {
        let value = &rest[1..];
        out.push(quote);
        out.push_str(REDACTED);
        return &value[value.find(quote).unwrap_or(value.len())..];
    }
    let end_of = |text: &str| {
        text.find([' ', '&', '"', '\'', '\n', '\t'])
            .unwrap_or(text.len())
    };
    let mut end = end_of(rest);
    // `Authorization: Bearer x`: the secret comes after the scheme.
    if is_scheme(&rest[..end]) && rest[end..].starts_with(' ') {
        end += 1 + end_of(&rest[end + 1..]);
    }
    if end > 0 {
        out.push_str(REDACTED);
    }
    &rest[end..]
}

/// Writes the part of an address before its path without user and password; returns what follows.
fn redact_authority<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let end = rest
        .find(['/', '?', '#', ' ', '"', '\''])
        .unwrap_or(rest.len());
    let (authority, after) = rest.split_at(end);
    match authority.rfind('@') {
        Some(at) => {
            out.push_str(REDACTED);
            out.push_str(&authority[at..]);
        }
        None => out.push_str(authority),
    }
    after
}

/// What names are made of, and keys.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "token", "digest"]
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Words that begin as the keys of well-known services do.
fn is_known_key(word: &str) -> bool {
    const BEGINNINGS: [&str; 14] = [
        "sk-",
        "sk_",
        "rk_",
        "ghp_",
        "gho_",
        "ghs_",
        "ghu_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "AIza",
        "eyJ",
    ];
    word.len() >= 16
        && BEGINNINGS
            .iter()
            .any(|beginning| word.starts_with(beginning))
}

/// Secret names of details, and those that only command lines shorten so.
fn is_secret_name(name: &str) -> bool {
    if is_secret_key(name) {
        return true;
    }
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or(&name);
    let endings = [
        "key",
        "pass",
        "pwd",
        "auth",
        "bearer",
        "passphrase",
        "signature",
    ];
    // Short words only as words of their own: `--hotp` would be no loss, `--topping` reads badly.
    matches!(last, "pw" | "pat" | "psk" | "pin" | "otp" | "sig")
        || endings.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CANARY: &str = "hunter2canary";

    #[test]
    fn secrets_are_taken_out_and_the_rest_is_kept() {
        let cases: [(&[&str], &[&str]); 28] = [
            (
                &["node", "agent.js", "--port", "80"],
                &["node", "agent.js", "--port", "80"],
            ),
            (&["a", "--token=X"], &["a", "--token=[redacted]"]),
            (
                &["a", "--api-key", "X", "y"],
                &["a", "--api-key", "[redacted]", "y"],
            ),
            (
                &["a", "--token", "--verbose"],
                &["a", "--token", "--verbose"],
            ),
            (
                &["env", "API_KEY=X", "PATH=/bin", "a"],
                &["env", "API_KEY=[redacted]", "PATH=/bin", "a"],
            ),
            (
                &["java", "-Dpassword=X", "-Dname=y"],
                &["java", "-Dpassword=[redacted]", "-Dname=y"],
            ),
            (
                &["a", "https://ada:X@h.example/p?q=1"],
                &["a", "https://[redacted]@h.example/p?q=1"],
            ),
            (
                &["a", "--url=postgres://u:X@db/x"],
                &["a", "--url=postgres://[redacted]@db/x"],
            ),
            (
                &["a", "http://h/?token=X&b=1"],
                &["a", "http://h/?token=[redacted]&b=1"],
            ),
            (
                &["curl", "-H", "Authorization: Bearer X"],
                &["curl", "-H", "Authorization: [redacted]"],
            ),
            (
                &["curl", "-H", "X-Api-Key: X"],
                &["curl", "-H", "X-Api-Key: [redacted]"],
            ),
            (&["curl", "-u", "ada:X"], &["curl", "-u", "[redacted]"]),
            (
                &["a", r#"{"apiKey":"X","model":"m"}"#],
                &["a", r#"{"apiKey":"[redacted]","model":"m"}"#],
            ),
            (
                &["sh", "-c", "TOKEN=X exec a"],
                &["sh", "-c", "TOKEN=[redacted]"],
            ),
            (&["a", "ghp_0123456789abcdef"], &["a", "[redacted]"]),
            (
                &["a", "--password", "-X"],
                &["a", "--password", "[redacted]"],
            ),
            (&["a", "Bearer", "X"], &["a", "Bearer", "[redacted]"]),
            (&["a", "--ssh-key=X"], &["a", "--ssh-key=[redacted]"]),
            (&["a", "db_password:X"], &["a", "db_password:[redacted]"]),
            (&["a", "--pass", "X"], &["a", "--pass", "[redacted]"]),
            (
                &["donkey", "--author", "ada", "b=c"],
                &["donkey", "--author", "ada", "b=c"],
            ),
            (&["", "", "é"], &["", "", "é"]),
            (
                &["a", "PASSWORD=my secret; x"],
                &["a", "PASSWORD=[redacted]"],
            ),
            (
                &["sh", "-c", "cd a; TOKEN='X Y;Z' b; c"],
                &["sh", "-c", "cd a; TOKEN='[redacted]' b; c"],
            ),
            (
                &["sh", "-c", "TOKEN=X;Y b"],
                &["sh", "-c", "TOKEN=[redacted]"],
            ),
            (
                &["sh", "-c", "curl -H 'Authorization: Bearer X' h"],
                &["sh", "-c", "curl -H 'Authorization: [redacted]' h"],
            ),
            (&["a", "x: Bearer X y"], &["a", "x: Bearer [redacted] y"]),
            (&["a", "--token="], &["a", "--token="]),
        ];
        for (given, expected) in cases {
            assert_eq!(redact_command(given), expected, "{given:?}");
        }
    }

    #[test]
    fn is_bounded() {
        let long = "é".repeat(10_000);
        let shown = redact_command(["a", &long, "b"]);
        assert!(shown.iter().map(String::len).sum::<usize>() <= MAX_BYTES + 3);
        assert!(shown[1].ends_with('…') && shown.len() == 2);
        assert!(redact_command(vec![""; 1_000_000]).len() <= MAX_BYTES + 1);
    }

    proptest! {
        #[test]
        fn a_secret_never_shows(
            before in proptest::collection::vec("[a-z./-]{0,8}", 0..3),
            name in "(--)?[a-z]{0,4}[_-]?(token|secret|password|api_key|API-KEY|passwd|auth|pwd)",
            form in 0..6,
            after in "[ -~]{0,12}",
        ) {
            let mut arguments = before;
            match form {
                0 => arguments.extend([format!("--{}", name.trim_start_matches('-')), CANARY.into()]),
                1 => arguments.push(format!("{name}={CANARY}")),
                2 => arguments.push(format!("{name}: {CANARY}")),
                3 => arguments.push(format!("https://u:{CANARY}@h/{}", after.replace('@', ""))),
                4 => arguments.push(format!(r#"{{"{name}":"{CANARY}"}}"#)),
                _ => arguments.push(format!("x y={after} {name}=\"{CANARY}\" z")),
            }
            let shown = redact_command(&arguments).join(" ");
            prop_assert!(!shown.contains(CANARY), "{shown}");
        }

        #[test]
        fn any_argument_is_fine(arguments in proptest::collection::vec("\\PC{0,40}", 0..6)) {
            redact_command(&arguments);
        }
    }
}
