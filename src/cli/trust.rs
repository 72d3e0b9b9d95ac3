//! `marin-tui trust`, and the question before anything of a working folder is used.

use super::{columns, output};
use crate::config::{self, Config, Env, Loaded, Records, Review, Sources, Standing, Trusted};
use crate::model::Timestamp;
use crate::model::text::printable;
use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui trust                      what ./infra and ./.marin.yaml would do, and whether to allow it
  marin-tui trust --yes ~/src/marin    allow it without being asked, e.g. in a script that knows the folder
  marin-tui trust --list               the folders that are trusted
  marin-tui trust --remove             ask again the next time

Only what the working folder brings needs trust. --infra, --address and the settings are your own word.";

/// Which folder, and what to do.
#[derive(Clone, Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct TrustArguments {
    /// The folder [default: the working folder]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Trust it without being asked
    #[arg(long, short, conflicts_with_all = ["list", "remove"])]
    yes: bool,
    /// List the folders that are trusted
    #[arg(long, conflicts_with_all = ["remove", "folder"])]
    list: bool,
    /// Do not trust the folder any more
    #[arg(long)]
    remove: bool,
    /// With --list: print JSON
    #[arg(long, requires = "list")]
    json: bool,
}

/// Runs it.
pub(super) fn run(arguments: &TrustArguments, sources: &Sources, env: Env) -> anyhow::Result<()> {
    let records = Records::of(&env);
    if arguments.list {
        return list(&records, arguments.json);
    }
    let folder = arguments.folder.as_deref().unwrap_or(Path::new("."));
    let folder = env.expand(folder);
    if arguments.remove {
        // A folder that is gone can be forgotten, too.
        let folder = folder.canonicalize().or_else(|_| std::path::absolute(&folder))?;
        if !records.remove(&folder).context("the record cannot be removed")? {
            bail!("{} is not trusted; `marin-tui trust --list` lists the folders", shown(&folder));
        }
        println!("{} is not trusted any more", shown(&folder));
        return Ok(());
    }
    let folder = folder.canonicalize().with_context(|| format!("{} cannot be used", shown(&folder)))?;
    let sources = Sources { config: sources.config.clone(), ..Sources::default() };
    let loaded = config::read(&sources, &env.within(folder.clone()), Timestamp::now())?;
    let Some(review) = loaded.review() else {
        let what = "nothing there needs trust: no cluster file of `infra` and no `.marin.yaml` is used";
        println!("{}: {what}", shown(&folder));
        return Ok(());
    };
    match review.standing(&records) {
        Standing::Unsafe(fault) => bail!("{}", unsafe_words(&fault)),
        Standing::Trusted => {
            println!("{}", listed(review, "is trusted. It makes marin-tui"));
            return Ok(());
        }
        standing => eprintln!("{}", listed(review, introduction(&standing))),
    }
    if !arguments.yes && !ask()? {
        bail!("{} is not trusted; nothing was done", shown(&folder));
    }
    keep(&records, review)?;
    println!("{} is trusted as it is now", shown(&folder));
    Ok(())
}

/// Lets a command begin: when the working folder is trusted, after a yes, or without what it brings where the command
/// line says where the clusters are.
pub(super) fn admit(loaded: Loaded, env: &Env) -> anyhow::Result<(Config, Env)> {
    let records = Records::of(env);
    let Some(review) = loaded.review() else { return Ok(loaded.admit(&records)?) };
    let standing = review.standing(&records);
    match &standing {
        Standing::Trusted => {}
        standing if loaded.is_named() => {
            let why = match standing {
                Standing::Unsafe(fault) => unsafe_words(fault),
                _ => "nobody said that it is trusted (`marin-tui trust` asks)".to_owned(),
            };
            eprintln!("marin-tui: .marin.yaml is not used: {why}");
        }
        Standing::Unsafe(fault) => bail!("{}", unsafe_words(fault)),
        standing => {
            if !io::stdin().is_terminal() || !output::asks_a_person() {
                let folder = shown(&review.folder);
                let lines = review.lines().join("\n");
                bail!(
                    "{folder} {}\n{lines}\nThere is no terminal to ask in: name the cluster files with --infra, or say \
                     `marin-tui trust` there",
                    introduction(standing)
                );
            }
            eprintln!("{}", listed(review, introduction(standing)));
            if !ask()? {
                bail!("{} is not trusted; nothing was done", shown(&review.folder));
            }
            keep(&records, review)?;
        }
    }
    Ok(loaded.admit(&records)?)
}

/// Asks whether a file of the working folder may make us do one thing, this once.
pub(super) fn allow(file: &Path, what: &str) -> anyhow::Result<()> {
    let question = printable(&format!("{} would make marin-tui {what}", file.display())).into_owned();
    if !io::stdin().is_terminal() {
        bail!("{question}. There is no terminal to ask in: name the folder with --infra");
    }
    eprint!("{question}. Allow it? [y/N] ");
    if answered_yes()? { Ok(()) } else { bail!("nothing was done") }
}

fn introduction(standing: &Standing) -> &'static str {
    match standing {
        Standing::Changed(_) => "has changed since it was trusted. Its files would make marin-tui",
        _ => "is not trusted yet. Its files would make marin-tui",
    }
}

fn shown(folder: &Path) -> String {
    printable(&folder.display().to_string()).into_owned()
}

fn unsafe_words(fault: &config::Unsafe) -> String {
    let words = format!(
        "{} {}, so what the working folder brings is not used; {}, or name the cluster files with --infra",
        fault.place.display(),
        fault.why,
        fault.fix
    );
    printable(&words).into_owned()
}

fn listed(review: &Review, introduction: &str) -> String {
    format!("{} {introduction}\n{}", shown(&review.folder), review.lines().join("\n"))
}

/// Asks on the terminal; without one the answer is an error.
fn ask() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("there is no terminal to ask in: say --yes to trust the folder without being asked");
    }
    eprint!("Trust this folder with this content? [y/N] ");
    answered_yes()
}

fn answered_yes() -> anyhow::Result<bool> {
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn keep(records: &Records, review: &Review) -> anyhow::Result<()> {
    let kept = records.accept(review, Timestamp::now());
    kept.context("the answer cannot be kept, so the folder is not used; name the cluster files with --infra")
}

fn list(records: &Records, as_json: bool) -> anyhow::Result<()> {
    let all = records.list();
    let when = |ms: i64| jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    if as_json {
        let row =
            |r: &Trusted| json!({"folder": r.folder, "files": r.files, "since": when(r.at_ms).to_string()});
        return output::json(&all.iter().map(row).collect::<Vec<_>>());
    }
    let row = |r: &Trusted| {
        let since = when(r.at_ms).to_zoned(jiff::tz::TimeZone::system());
        vec![shown(&r.folder), r.files.len().to_string(), since.strftime("%Y-%m-%d %H:%M:%S").to_string()]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    Ok(columns::print(&mut output::stdout(), &["FOLDER", "FILES", "SINCE"], &rows)?)
}
