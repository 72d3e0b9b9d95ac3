//! `marin-tui trust`, and the question before any file of a working directory is used.

use super::{columns, output};
use crate::config::{self, Config, Env, Loaded, Records, Review, Sources, TrustState, Trusted};
use crate::model::json::object;
use crate::model::text::printable;
use crate::model::{Target, Timestamp};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "\
Examples:
  marin-tui trust                      review ./infra and ./.marin.yaml, then confirm
  marin-tui trust --yes ~/src/marin    trust a directory without confirmation, e.g. in a script
  marin-tui trust --list               list trusted directories
  marin-tui trust --remove             stop trusting the current directory

Only files in the current directory need to be trusted, also if a relative path in the settings names them. Files given with \
--infra or by an absolute path in the settings do not, nor does --address.";

/// Options of `trust`.
#[derive(Clone, Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct TrustArguments {
    /// Directory [default: the current directory]
    #[arg(id = "dir", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Trust the directory without confirmation
    #[arg(long, short, conflicts_with_all = ["list", "remove"])]
    yes: bool,
    /// List trusted directories
    #[arg(long, conflicts_with_all = ["remove", "dir"])]
    list: bool,
    /// Stop trusting the directory
    #[arg(long)]
    remove: bool,
    /// With --list: print JSON
    #[arg(long, requires = "list")]
    json: bool,
}

/// Runs the subcommand.
pub(super) fn run(arguments: &TrustArguments, sources: &Sources, env: Env) -> anyhow::Result<()> {
    let records = Records::of(&env);
    if arguments.list {
        return list(&records, arguments.json);
    }
    let folder = arguments.folder.as_deref().unwrap_or(Path::new("."));
    let folder = env.expand(folder);
    if arguments.remove {
        // The record of a deleted directory can be removed as well.
        let folder = folder.canonicalize().or_else(|_| std::path::absolute(&folder))?;
        if !records.remove(&folder).context("cannot remove the trust record")? {
            bail!(
                "{} is not trusted; list trusted directories with `{}`",
                shown(&folder),
                Target::default().line("trust --list")
            );
        }
        println!("{} is no longer trusted", shown(&folder));
        return Ok(());
    }
    let folder = folder.canonicalize().with_context(|| format!("cannot use {}", shown(&folder)))?;
    let sources = Sources { config: sources.config.clone(), ..Sources::default() };
    let loaded = config::read(&sources, &env.within(folder.clone()), Timestamp::now())?;
    let Some(review) = loaded.review() else {
        let what = "nothing to trust: no cluster files in `infra` and no `.marin.yaml` in use";
        println!("{}: {what}", shown(&folder));
        return Ok(());
    };
    match review.state(&records) {
        TrustState::Unsafe(fault) => bail!("{}", unsafe_text(&fault)),
        TrustState::Trusted => {
            println!("{}", listed(review, "is trusted. With its files marin-tui will"));
            return Ok(());
        }
        state => eprintln!("{}", listed(review, introduction(&state))),
    }
    if !arguments.yes && !ask()? {
        bail!("{} is not trusted; nothing was done", shown(&folder));
    }
    keep(&records, review)?;
    println!("{} is now trusted with its current content", shown(&folder));
    Ok(())
}

/// Checks that the working directory is trusted, or asks. If the command line names the clusters, an untrusted
/// directory's files are ignored instead.
pub(super) fn admit(loaded: Loaded, env: &Env) -> anyhow::Result<(Config, Env)> {
    let records = Records::of(env);
    let Some(review) = loaded.review() else { return Ok(loaded.admit(&records)?) };
    let state = review.state(&records);
    match &state {
        TrustState::Trusted => {}
        state if loaded.is_named() => {
            let why = match state {
                TrustState::Unsafe(fault) => unsafe_text(fault),
                _ => format!("the directory is not trusted; run `{}`", Target::default().line("trust")),
            };
            eprintln!("marin-tui: .marin.yaml is not used: {why}");
        }
        TrustState::Unsafe(fault) => bail!("{}", unsafe_text(fault)),
        state => {
            if !io::stdin().is_terminal() || !output::can_ask() {
                let folder = shown(&review.folder);
                let lines = review.lines().join("\n");
                bail!(
                    "{folder} {}\n{lines}\nCannot ask for confirmation: stdin or stderr is not a terminal; \
                     specify the cluster files with --infra, or run `{}` in a terminal",
                    introduction(state),
                    Target::default().line("trust")
                );
            }
            eprintln!("{}", listed(review, introduction(state)));
            if !ask()? {
                bail!("{} is not trusted; nothing was done", shown(&review.folder));
            }
            keep(&records, review)?;
        }
    }
    Ok(loaded.admit(&records)?)
}

/// Asks whether a file of the working directory may cause this action, once.
pub(super) fn allow(file: &Path, what: &str) -> anyhow::Result<()> {
    let question = printable(&format!("{} would make marin-tui {what}", file.display())).into_owned();
    if !io::stdin().is_terminal() {
        bail!("{question}. Cannot ask for confirmation: stdin is not a terminal; use --infra DIR");
    }
    eprint!("{question}. Allow it? [y/N] ");
    if answered_yes()? { Ok(()) } else { bail!("nothing was done") }
}

fn introduction(state: &TrustState) -> &'static str {
    match state {
        TrustState::Changed(_) => "has changed since it was trusted. With its files marin-tui would",
        _ => "is not trusted yet. With its files marin-tui would",
    }
}

fn shown(folder: &Path) -> String {
    printable(&folder.display().to_string()).into_owned()
}

fn unsafe_text(fault: &config::Unsafe) -> String {
    let words = format!(
        "{} {}, so the files in the current directory are not used; {}, or specify the cluster files with --infra",
        fault.path.display(),
        fault.why,
        fault.fix
    );
    printable(&words).into_owned()
}

fn listed(review: &Review, introduction: &str) -> String {
    format!("{} {introduction}\n{}", shown(&review.folder), review.lines().join("\n"))
}

/// Asks for confirmation on the terminal; fails without one.
fn ask() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("cannot ask for confirmation: stdin is not a terminal; use --yes");
    }
    eprint!("Trust this directory with this content? [y/N] ");
    answered_yes()
}

fn answered_yes() -> anyhow::Result<bool> {
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn keep(records: &Records, review: &Review) -> anyhow::Result<()> {
    let kept = records.accept(review, Timestamp::now());
    kept.context(
        "cannot save the answer, so the directory is not used; use --infra to specify the cluster files",
    )
}

fn list(records: &Records, as_json: bool) -> anyhow::Result<()> {
    let all = records.list();
    let when = |ms: i64| jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    if as_json {
        let row = |r: &Trusted| {
            let files = object(r.files.iter().map(|(file, sum)| (output::path(file), sum.as_str())));
            json!({"dir": output::path(&r.folder), "files": files, "trusted_ms": r.at_ms})
        };
        return output::json(&all.iter().map(row).collect::<Vec<_>>());
    }
    let row = |r: &Trusted| {
        let since = when(r.at_ms).to_zoned(jiff::tz::TimeZone::system());
        vec![shown(&r.folder), r.files.len().to_string(), since.strftime("%Y-%m-%d %H:%M:%S").to_string()]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    Ok(columns::print(&mut output::stdout(), &["DIRECTORY", "FILES", "SINCE"], &rows)?)
}
