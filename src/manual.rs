//! The pages of the manual, which are part of the program: `marin-tui help TOPIC` prints them, the console shows them.

/// The pages by topic, in reading order. `tests/unit/readme.rs` compares the list with `assets/manual`.
pub const PAGES: [(&str, &str); 16] = [
    ("getting-started", include_str!("../assets/manual/getting-started.md")),
    ("console", include_str!("../assets/manual/console.md")),
    ("keys", include_str!("../assets/manual/keys.md")),
    ("commands", include_str!("../assets/manual/commands.md")),
    ("old-script", include_str!("../assets/manual/old-script.md")),
    ("settings", include_str!("../assets/manual/settings.md")),
    ("jobs", include_str!("../assets/manual/jobs.md")),
    ("operations", include_str!("../assets/manual/operations.md")),
    ("google", include_str!("../assets/manual/google.md")),
    ("tokens", include_str!("../assets/manual/tokens.md")),
    ("safety", include_str!("../assets/manual/safety.md")),
    ("troubleshooting", include_str!("../assets/manual/troubleshooting.md")),
    ("benchmarks", include_str!("../assets/manual/benchmarks.md")),
    ("json", include_str!("../assets/manual/json.md")),
    ("contributing", include_str!("../assets/manual/contributing.md")),
    ("style", include_str!("../assets/manual/style.md")),
];

/// The pages for people who change the program.
pub const FOR_CONTRIBUTORS: [&str; 2] = ["contributing", "style"];

/// The text of a page; `None` if there is no such topic.
pub fn page(topic: &str) -> Option<&'static str> {
    PAGES.iter().find(|(known, _)| *known == topic).map(|(_, text)| *text)
}

/// The states that the console shows, each with its glyph and meaning, from the table on the page `console`.
pub fn states() -> Vec<(String, String)> {
    let text = page("console").unwrap_or_default();
    let section = text.split_once("\n## States\n").map_or("", |(_, after)| after);
    let section = section.split("\n## ").next().unwrap_or_default();
    let table = section.lines().filter(|line| line.starts_with('|')).filter_map(cells).skip(1);
    table.map(|(state, meaning)| (state.replace('`', ""), meaning.replace('`', ""))).collect()
}

/// Whether the page `commands` has a row for this command.
pub fn has_command(name: &str) -> bool {
    let rows = page("commands").unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| "));
    let mut names = rows.filter_map(|row| row.split(" | ").next()).flat_map(|first| {
        // Every second part is between backticks.
        first.split('`').skip(1).step_by(2).filter_map(|words| words.split(' ').next())
    });
    names.any(|known| known == name)
}

/// The first line of text below a page's title.
pub fn summary(text: &str) -> &str {
    text.lines().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default()
}

/// A page as pairs of label and text. The label of a table row is its first cell; other labels are empty. The lines of
/// a paragraph are joined into one text, to be wrapped on display. Lines of code are indented.
pub fn rows(text: &str) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let (mut is_open, mut is_code) = (false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            (is_open, is_code) = (false, !is_code);
            continue;
        }
        if is_code {
            rows.push((String::new(), format!("    {line}")));
            continue;
        }
        let is_table = line.starts_with('|');
        let is_own = is_table || line.is_empty() || line.starts_with('#') || line.starts_with("    ");
        let begins =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        if is_table {
            rows.extend(cells(line).map(|(label, text)| (without_markup(&label), without_markup(&text))));
        } else if is_open && !is_own && !begins {
            if let Some((_, paragraph)) = rows.last_mut() {
                paragraph.push(' ');
                paragraph.push_str(line.trim());
            }
        } else {
            rows.push((String::new(), line.to_owned()));
        }
        is_open = !is_own;
    }
    for (label, text) in rows.iter_mut().filter(|(label, text)| label.is_empty() && !text.starts_with("    "))
    {
        (*label, *text) = (String::new(), without_markup(text));
    }
    rows
}

/// A text without the markup of bold words and links. The address of a link out of the manual follows in parentheses.
fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (words, address, after))) = link(rest) {
        out.push_str(before);
        out.push_str(words);
        if address.contains("://") && words != address {
            out.extend([" (", address, ")"]);
        }
        rest = after;
    }
    out.push_str(rest);
    out.replace("**", "")
}

/// The text before the first link; then the link's text, its address and the text after it.
fn link(text: &str) -> Option<(&str, (&str, &str, &str))> {
    let (head, tail) = text.split_once("](")?;
    let (address, after) = tail.split_once(')')?;
    let open = head.rfind('[')?;
    Some((&head[..open], (&head[open + 1..], address, after)))
}

/// The first cell of a table row, and the others joined; `None` for the line below the header.
fn cells(line: &str) -> Option<(String, String)> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let (first, others) = cells.split_first()?;
    let is_rule = line.chars().all(|c| matches!(c, '|' | '-' | ' ' | ':'));
    (!is_rule).then(|| ((*first).to_owned(), others.join(" · ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_by_name() {
        for name in ["audit", "list-jobs", "start-cluster", "stop-cluster", "job-logs"] {
            assert!(has_command(name), "{name}");
        }
        for name in ["", "command", "ID", "nothing"] {
            assert!(!has_command(name), "{name}");
        }
    }

    #[test]
    fn the_states_are_a_table_of_the_console_page() {
        let states = states();
        assert!(states.iter().any(|(state, _)| state == "✕ lost"), "{states:?}");
        assert!(
            states.iter().all(|(state, meaning)| !state.contains('`') && !meaning.is_empty()),
            "{states:?}"
        );
    }

    #[test]
    fn a_page_becomes_rows() {
        let text = "# Title\n\nOne sentence\nover lines.\n\n- a\n  b\n- c\n\n    code  here\n\n| key | does |\n| --- | --- |\n| `x` | stops | now |\n";
        let row = |label: &str, text: &str| (label.to_owned(), text.to_owned());
        let wanted = [
            row("", "# Title"),
            row("", ""),
            row("", "One sentence over lines."),
            row("", ""),
            row("", "- a b"),
            row("", "- c"),
            row("", ""),
            row("", "    code  here"),
            row("", ""),
            row("key", "does"),
            row("`x`", "stops · now"),
        ];
        assert_eq!(rows(text), wanted);
        assert_eq!(summary(text), "One sentence");
        assert!(page("keys").is_some() && page("no-such").is_none());
    }

    #[test]
    fn rows_keep_all_words_of_a_page() {
        for (topic, text) in PAGES {
            let shown: Vec<String> =
                rows(text).into_iter().map(|(label, text)| format!("{label} {text}")).collect();
            let shown = shown.join("\n");
            let words = |text: &str| {
                let words = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
                words.map(str::to_owned).collect::<Vec<_>>()
            };
            // The line that begins a block of code names its language.
            let text = text.replace("```yaml", "```");
            assert_eq!(words(&shown), words(&without_markup(&text)), "{topic}");
        }
    }
}
