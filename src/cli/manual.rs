//! `marin-tui help`: the help of commands, and the pages of the manual, which are part of the program.

use super::old::renamed;
use crate::config::nearest;
use crate::manual::{FOR_CONTRIBUTORS, PAGES, page, rows, summary};
use crate::tui::terminal_width;
use anyhow::bail;
use clap::Command;
use unicode_width::UnicodeWidthStr;

/// Maximum width of a page on a terminal, in columns.
const MAX_WIDTH: usize = 100;
/// Minimum width of a page.
const MIN_WIDTH: usize = 30;

/// Prints the help of a subcommand of `command`, or a page of the manual; without words, the help of the program and
/// the list of pages.
pub(super) fn run(words: &[String], mut command: Command) -> anyhow::Result<()> {
    // Without this, the usage of a subcommand does not begin with the program's name.
    command.build();
    if words.is_empty() {
        let pages = PAGES.iter().filter(|(topic, _)| !FOR_CONTRIBUTORS.contains(topic));
        let topics: Vec<Vec<String>> =
            pages.map(|(topic, text)| vec![(*topic).to_owned(), summary(text).to_owned()]).collect();
        print!("{}\n", command.render_long_help());
        super::columns::print(&mut super::output::stdout(), &["TOPIC", "ABOUT"], &topics)?;
        println!(
            "\nTo change this program: `marin-tui help {}`",
            FOR_CONTRIBUTORS.join("`, `marin-tui help ")
        );
        return Ok(());
    }
    if let [topic] = words
        && let Some(text) = page(topic)
    {
        match terminal_width().filter(|_| super::output::is_terminal()) {
            Some(width) => print!("{}", formatted(text, width.into())),
            None => print!("{text}"),
        }
        return Ok(());
    }
    // An old name of a command, unless its first word is a current command.
    let renewed = renamed().find(|(old, _)| *old == words.join(" "));
    if let Some((old, new)) = renewed.filter(|_| command.find_subcommand(&words[0]).is_none()) {
        println!("`{old}` is now `{new}`.\n");
        for word in new.split(' ') {
            let Some(found) = command.find_subcommand(word).cloned() else { break };
            command = found;
        }
        print!("{}", command.render_long_help());
        return Ok(());
    }
    for word in words {
        let Some(found) = command.find_subcommand(word).filter(|found| !found.is_hide_set()).cloned() else {
            let known = command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name);
            let near = nearest(word, known.chain(PAGES.iter().map(|(topic, _)| *topic)));
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            bail!("no command or topic `{word}`; {near}`marin-tui help` lists them");
        };
        command = found;
    }
    print!("{}", command.render_long_help());
    Ok(())
}

/// A page for a terminal: text is wrapped, columns of tables are aligned, and titles are in capitals, as in man pages.
fn formatted(text: &str, width: usize) -> String {
    let width = width.clamp(MIN_WIDTH, MAX_WIDTH);
    let mut lines = Vec::new();
    for rows in rows(text).chunk_by(|(a, _), (b, _)| a.is_empty() == b.is_empty()) {
        let first = rows.iter().map(|(label, _)| label.width()).max().unwrap_or(0).min(width * 2 / 5);
        for (label, text) in rows {
            match label.as_str() {
                "" => lines.extend(paragraph(text, width)),
                label => {
                    let (left, right) =
                        (textwrap::wrap(label, first), textwrap::wrap(text, width - first - 2));
                    let cell = |cells: &[std::borrow::Cow<'_, str>], i: usize| {
                        cells.get(i).map_or_else(String::new, ToString::to_string)
                    };
                    lines.extend((0..left.len().max(right.len())).map(|i| {
                        let (left, right) = (cell(&left, i), cell(&right, i));
                        format!("{left}{}  {right}", " ".repeat(first.saturating_sub(left.width())))
                    }));
                }
            }
        }
    }
    lines.iter().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// The lines of a title, a paragraph, a list item or a line of an example.
fn paragraph(text: &str, width: usize) -> Vec<String> {
    if text.starts_with("    ") || text.is_empty() {
        return vec![text.to_owned()];
    }
    if text.starts_with('#') {
        return vec![text.trim_start_matches('#').trim().to_uppercase()];
    }
    let options = textwrap::Options::new(width);
    let options = if text.starts_with("- ") { options.subsequent_indent("  ") } else { options };
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_on_a_terminal_is_wrapped_and_its_tables_are_aligned() {
        let text = "# Tokens\n\nWhere a **token** comes\nfrom, see [google](google.md).\n\n- one thing that is long enough to be wrapped\n\n    \
                    marin-tui token\n\n| key | does |\n| --- | --- |\n| `a` | first thing of a table |\n| `long-one` | second |\n";
        assert_eq!(
            formatted(text, 30),
            "TOKENS\n\nWhere a token comes from, see\ngoogle.\n\n- one thing that is long\n  enough to be wrapped\n\n    \
             marin-tui token\n\nkey         does\n`a`         first thing of a\n            table\n`long-one`  second\n"
        );
        for (topic, text) in PAGES {
            let widest = formatted(text, 60)
                .lines()
                .filter(|l| !l.starts_with("    "))
                .map(UnicodeWidthStr::width)
                .max();
            assert!(
                widest.is_some_and(|widest| widest <= 60 || topic == "old-script"),
                "{topic}: {widest:?}"
            );
        }
    }
}
