//! `marin-tui man`: man pages for packages. Section 1 has a page for each command, generated from its help; section 7
//! has the pages of the manual.

mod markdown;
mod names;

use crate::manual;
use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use names::{page_name, source};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui man pages && man ./pages/marin-tui-add-worker.1
  sudo cp pages/*.1 /usr/local/share/man/man1/ && sudo cp pages/*.7 /usr/local/share/man/man7/";

/// Options of `man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Directory for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes the pages of the program and of the manual into the directory.
pub(super) fn run(arguments: &ManArguments, mut program: Command) -> anyhow::Result<()> {
    let dir = &arguments.dir;
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    program.build();
    write_command(program, dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    for (topic, text) in manual::PAGES {
        let file = dir.join(format!("{}.7", page_name(topic)));
        let page = markdown::page(&page_name(topic), manual::summary(text), text);
        fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Writes the page of a command, and those of its subcommands.
fn write_command(command: Command, dir: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write_command(inner.clone(), dir)?;
    }
    let (hints, top) = (command.get_after_help().map(ToString::to_string), command.get_name() == "marin-tui");
    let many = command.get_subcommands().any(|c| !c.is_hide_set());
    let man = Man::new(command).source(source()).manual("marin-tui");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if many {
        man.render_subcommands_section(&mut page)?;
    }
    let mut end = Roff::new();
    notes(&mut end, hints.as_deref().unwrap_or_default());
    see_also(&mut end, top);
    page.extend(end.render().into_bytes());
    fs::write(dir.join(man.get_filename()), page)
}

/// The end of a command's help: notes, exit codes and examples.
fn notes(page: &mut Roff, text: &str) {
    let (mut notes, mut codes, mut examples) = (Vec::new(), None, None);
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        if let Some(lines) = paragraph.strip_prefix("Examples:\n") {
            examples = Some(lines);
        } else if let Some(list) = paragraph.strip_prefix("Exit codes: ") {
            codes = Some(list);
        } else {
            notes.push(paragraph);
        }
    }
    if !notes.is_empty() {
        page.control("SH", ["NOTES"]);
    }
    for note in notes {
        page.control("PP", []).text([roman(note)]);
    }
    if let Some(codes) = codes {
        page.control("SH", ["EXIT STATUS"]).text([roman(codes)]);
    }
    if let Some(lines) = examples {
        page.control("SH", ["EXAMPLES"]);
        markdown::verbatim(page, lines.lines().map(str::trim_start));
    }
}

/// Writes the references: the program's page lists all topics, other pages list the program and `commands`.
fn see_also(page: &mut Roff, top: bool) {
    page.control("SH", ["SEE ALSO"]);
    let topics = manual::PAGES.iter().map(|(topic, _)| *topic).filter(|topic| top || *topic == "commands");
    let program = (!top).then(|| ("marin-tui".to_owned(), "(1)"));
    let names: Vec<_> = program.into_iter().chain(topics.map(|topic| (page_name(topic), "(7)"))).collect();
    let last = names.len() - 1;
    for (index, (name, section)) in names.into_iter().enumerate() {
        let comma = if index == last { "" } else { "," };
        page.text([bold(name), roman(format!("{section}{comma}"))]);
    }
}
