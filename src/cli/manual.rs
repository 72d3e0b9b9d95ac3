//! `marin-tui help`: the help of commands, and the pages of the manual, which are part of the program.

use crate::config::nearest;
use anyhow::bail;
use clap::Command;

/// The pages of the manual by topic, in reading order. `tests/unit/readme.rs` holds the list to `assets/manual`.
pub const PAGES: [(&str, &str); 15] = [
    ("getting-started", include_str!("../../assets/manual/getting-started.md")),
    ("console", include_str!("../../assets/manual/console.md")),
    ("keys", include_str!("../../assets/manual/keys.md")),
    ("commands", include_str!("../../assets/manual/commands.md")),
    ("settings", include_str!("../../assets/manual/settings.md")),
    ("jobs", include_str!("../../assets/manual/jobs.md")),
    ("operations", include_str!("../../assets/manual/operations.md")),
    ("google", include_str!("../../assets/manual/google.md")),
    ("tokens", include_str!("../../assets/manual/tokens.md")),
    ("safety", include_str!("../../assets/manual/safety.md")),
    ("troubleshooting", include_str!("../../assets/manual/troubleshooting.md")),
    ("figures", include_str!("../../assets/manual/figures.md")),
    ("json", include_str!("../../assets/manual/json.md")),
    ("contributing", include_str!("../../assets/manual/contributing.md")),
    ("style", include_str!("../../assets/manual/style.md")),
];

/// The first sentence of a page, which stands below its title.
fn summary(text: &str) -> &str {
    text.lines().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default()
}

/// Prints the help of a subcommand of `command`, or a page of the manual; without a word the help of the program and the list of pages.
pub(super) fn run(words: &[String], mut command: Command) -> anyhow::Result<()> {
    // Without it the usage of a subcommand does not begin with the program's name.
    command.build();
    if words.is_empty() {
        let topics: Vec<Vec<String>> =
            PAGES.iter().map(|(topic, text)| vec![(*topic).to_owned(), summary(text).to_owned()]).collect();
        print!("{}\n", command.render_long_help());
        return Ok(super::columns::print(&mut super::output::stdout(), &["TOPIC", "ABOUT"], &topics)?);
    }
    if let [topic] = words
        && let Some((_, text)) = PAGES.iter().find(|(known, _)| known == topic)
    {
        print!("{text}");
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
