//! Foreign text on a terminal: shown, never executed.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text with everything a terminal would act on made visible: `ESC` as `\e`, other control
/// characters as `\x07`, tabs as spaces, and the marks that reorder text as `\u{202e}`.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '\t' => out.write_str("    "),
            '\u{1b}' => out.write_str("\\e"),
            c if is_active(c) && c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
            c if is_active(c) => write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => out.write_char(c),
        };
    }
    Cow::Owned(out)
}

/// The same for text of several lines, which stay lines.
pub(crate) fn visible_lines(text: &str) -> Cow<'_, str> {
    if !text.contains('\n') {
        return visible(text);
    }
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    Cow::Owned(lines.join("\n"))
}

/// Whether a terminal would act on it instead of showing it, or show nothing where something is.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Marks of direction.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Ends of lines and paragraphs.
            | '\u{2028}' | '\u{2029}'
            // What has no width, and tells two names apart that look the same.
            | '\u{ad}' | '\u{200b}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// A line of a program for a person: as [`visible`], but without the sequences that only colour
/// it, which programs write for terminals and which say nothing.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return visible(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let parameters = sequence
            .bytes()
            .take_while(|b| matches!(b, b'0'..=b'9' | b';' | b':'))
            .count();
        if sequence.as_bytes().get(parameters) == Some(&b'm') {
            rest = &sequence[parameters + 1..];
        } else {
            out.push('\u{1b}');
            rest = &rest[at + 1..];
        }
    }
    out.push_str(rest);
    Cow::Owned(visible(&out).into_owned())
}

/// The name of a run without the ten digits by which the process adapter tells it from every other
/// run of that name; any other child's id as it is.
pub(crate) fn run_name(id: &str) -> &str {
    match id.rsplit_once('-') {
        Some((name, digits))
            if !name.is_empty()
                && digits.len() == 10
                && digits
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) =>
        {
            name
        }
        _ => id,
    }
}

/// The text in at most `columns` terminal columns, with `…` where it was cut.
pub(crate) fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns.saturating_sub(1)
    });
    let kept = end.map_or(text, |(at, _)| &text[..at]);
    if columns == 0 {
        Cow::Borrowed("")
    } else {
        Cow::Owned(format!("{kept}…"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_act_on() {
        for (text, shown) in [
            ("plain é 日本", "plain é 日本"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "\\e[2J\\e]0;title\\x07"),
            ("a\tb\rc\n", "a    b\\x0dc\\x0a"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("\u{7f}", "\\x7f"),
            ("a\u{61c}b\u{200b}", "a\\u{61c}b\\u{200b}"),
            ("\u{feff}a\u{ad}b", "\\u{feff}a\\u{ad}b"),
            ("a\u{e0041}\u{e007f}", "a\\u{e0041}\\u{e007f}"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn lines_stay_lines() {
        for (text, shown) in [
            ("one\r\n\u{1b}[2Jtwo\n", "one\\x0d\n\\e[2Jtwo\n"),
            ("\u{1b}[2J", "\\e[2J"),
            ("one", "one"),
        ] {
            assert_eq!(visible_lines(text), shown);
        }
    }

    #[test]
    fn colours_are_left_out_and_the_rest_is_shown() {
        for (text, shown) in [
            ("\u{1b}[1;32m   Compiling\u{1b}[0m x", "   Compiling x"),
            ("\u{1b}[38:5:1mred\u{1b}[m", "red"),
            ("\u{1b}[2Jgone\u{1b}[31m!", "\\e[2Jgone!"),
            ("\u{1b}[", "\\e["),
            ("\u{1b}[\u{1b}[1m", "\\e["),
        ] {
            assert_eq!(plain(text), shown);
        }
    }

    #[test]
    fn the_digits_of_a_run_are_no_part_of_its_name() {
        for (id, name) in [
            ("build-954873838e", "build"),
            ("a-b-0000000000", "a-b"),
            ("sa-0-1f3c9a2b", "sa-0-1f3c9a2b"),
            ("pid-4242-70201", "pid-4242-70201"),
            ("-0000000000", "-0000000000"),
            ("build-95487383XX", "build-95487383XX"),
        ] {
            assert_eq!(run_name(id), name);
        }
    }

    #[test]
    fn fits_by_columns_not_characters() {
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("abc", 2), "a…");
        assert_eq!(fit("abc", 0), "");
    }
}
