//! `marin-tui help`: the help of commands, and the pages of the manual, which are part of the program.

use super::old::renamed;
use crate::config::nearest;
use crate::manual::{PAGES, page, summary};
use anyhow::bail;
use clap::Command;

/// Prints the help of a subcommand of `command`, or a page of the manual; without words, the help of the program and
/// the list of pages.
pub(super) fn run(words: &[String], mut command: Command) -> anyhow::Result<()> {
    // Without this, the usage of a subcommand does not begin with the program's name.
    command.build();
    if words.is_empty() {
        let topics: Vec<Vec<String>> =
            PAGES.iter().map(|(topic, text)| vec![(*topic).to_owned(), summary(text).to_owned()]).collect();
        print!("{}\n", command.render_long_help());
        return Ok(super::columns::print(&mut super::output::stdout(), &["TOPIC", "ABOUT"], &topics)?);
    }
    if let [topic] = words
        && let Some(text) = page(topic)
    {
        print!("{text}");
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
