//! `marin-tui configs`: manages the directory of cluster files.

mod images;
mod print;
mod update;

pub(super) use images::all as images;
pub(super) use update::{Mode, print_diff};

use crate::cli::output;
use crate::config::{self, Env, Settings, Sources, yaml};
use crate::infra::{self, FILE, Finding, PlanError, Severity, Source, State, Table};
use crate::model::amount::counted;
use crate::model::command_line::shell_quote;
use crate::model::json::object;
use crate::model::{Target, Timestamp, tag_fault, without_first_word};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Examples at the end of the help of `configs`.
pub const EXAMPLES: &str = "\
Examples:
  marin-tui configs list                         list clusters and the state of their files
  marin-tui configs update --diff                show changes, write nothing
  marin-tui configs update                       write outdated files, show each change
  marin-tui configs update --check               for CI: exit code 1 if a file is out of date
  marin-tui configs validate                     check all files against all rules
  marin-tui configs set-image 20261120           set the image of all clusters without their own tag
  marin-tui configs set-image 20261120 us-east1  set the image of one cluster
  marin-tui configs show us-central2             show each value and its source
  marin-tui configs images us-central2           list the available image tags";

/// Subcommands of `configs`.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the clusters of clusters.yaml and the state of their files
    #[command(after_help = EXAMPLES)]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Render the templates, show the changes and write them
    #[command(after_help = EXAMPLES)]
    Update {
        /// Clusters to update [default: all]
        #[arg(value_name = "CLUSTER")]
        clusters: Vec<String>,
        /// Write nothing; exit code 1 if a file is out of date
        #[arg(long)]
        check: bool,
        /// Write nothing; show the changes
        #[arg(long)]
        diff: bool,
        /// Overwrite edits and rename clusters without confirmation
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check cluster files for known mistakes; exit code 1 if an error is found
    #[command(after_help = EXAMPLES)]
    Validate {
        /// Files to check [default: all cluster files in the directory]
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write an image tag into clusters.yaml and update the files
    #[command(after_help = EXAMPLES)]
    SetImage {
        /// Image tag
        tag: String,
        /// Clusters [default: all without a tag of their own]
        #[arg(value_name = "CLUSTER")]
        clusters: Vec<String>,
        /// Write nothing; show the changes
        #[arg(long)]
        diff: bool,
        /// Overwrite edits without confirmation
        #[arg(long, short)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tags of a cluster's image in Artifact Registry; exit code 1 if the configured tag does not exist
    #[command(after_help = EXAMPLES)]
    Images {
        /// Cluster name
        #[arg(value_name = "CLUSTER")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a cluster's values and the source of each
    #[command(after_help = EXAMPLES)]
    Show {
        /// Cluster name
        #[arg(value_name = "CLUSTER")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the subcommand.
pub fn run(action: &Action, sources: &Sources, env: &Env) -> Result<()> {
    let folders = folders(sources, env)?;
    if let Action::Validate { files, json } = action {
        return validate(files, &folders, *json);
    }
    let folder = table_folder(&folders)?;
    let table = Table::read(&folder)?;
    match action {
        Action::List { json } => list(&folder, &table, *json),
        Action::Show { name, json } => show(&table, name, *json),
        Action::Images { name, json } => {
            let stem = &row(&table, name)?.stem;
            let image = images::image(&folder, &table, stem)?;
            let settings = Settings::read(sources.config.as_deref(), env)?;
            if config::is_unnamed(&folder, sources, &settings, env) {
                // What is requested from Google depends on the content of the files.
                let loaded = config::read(sources, env, Timestamp::now())?;
                let is_trusted = loaded.review().is_some();
                if is_trusted {
                    super::trust::admit(loaded, env)?;
                }
                // The trust prompt lists the content of the cluster's own file, not that of its template.
                if !(is_trusted
                    && images::of_file(&folder.join(format!("{stem}.yaml"))) == Some(image.clone()))
                {
                    super::trust::allow(&table.file, &format!("query Google for the tags of {image}"))?;
                }
            }
            images::run(&image, stem, &settings, *json)
        }
        Action::Update { clusters, check, diff, yes, json } => {
            let only = stems(&table, clusters)?;
            let mode = update::Mode { check: *check, diff: *diff, yes: *yes, json: *json };
            update::Update::plan(&folder, &table, &only)?.run(mode)
        }
        Action::SetImage { tag, clusters, diff, yes, json } => set_image(
            &folder,
            &table,
            tag,
            clusters,
            update::Mode { check: false, diff: *diff, yes: *yes, json: *json },
        ),
        Action::Validate { .. } => unreachable!("done above"),
    }
}

/// The directories of cluster files, as for the console.
fn folders(sources: &Sources, env: &Env) -> Result<Vec<PathBuf>> {
    let settings = Settings::read(sources.config.as_deref(), env)?;
    Ok(config::infra_paths(sources, &settings, env))
}

pub(super) fn table_folder(folders: &[PathBuf]) -> Result<PathBuf> {
    let found = folders.iter().find(|f| f.join(FILE).is_file());
    found.cloned().with_context(|| {
        let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        format!("no {FILE} in {}; set its directory with --infra", looked.join(", "))
    })
}

/// The file names (without `.yaml`) of the named clusters.
fn stems(table: &Table, names: &[String]) -> Result<Vec<String>> {
    names.iter().map(|name| Ok(row(table, name)?.stem.clone())).collect()
}

fn row<'t>(table: &'t Table, name: &str) -> Result<&'t infra::Row> {
    table.find(name).with_context(|| {
        let names = table.rows.iter().flat_map(|r| [r.stem.as_str(), without_first_word(&r.stem)]);
        let near = config::nearest(name, names).map(|n| format!(", did you mean `{n}`?")).unwrap_or_default();
        format!(
            "no cluster `{name}` in {}{near}; list clusters with `{}`",
            table.file.display(),
            Target::default().line("configs list")
        )
    })
}

fn list(folder: &Path, table: &Table, json: bool) -> Result<()> {
    let plan = infra::plan(folder, table);
    let state_of = |stem: &str| plan.iter().find(|p| p.stem == stem).map_or(State::Missing, |p| p.state);
    if json {
        let rows: Vec<_> = table.rows.iter().map(|r| print::row_as_json(r, state_of(&r.stem))).collect();
        output::json(&rows)?;
        return update::rendered(&plan);
    }
    let rows: Vec<Vec<String>> =
        table.rows.iter().map(|r| print::row_as_cells(r, state_of(&r.stem))).collect();
    let mut out = output::stdout();
    super::columns::print(&mut out, &print::LIST_HEADER, &rows)?;
    for orphan in plan.iter().filter(|p| p.state == State::Orphan) {
        writeln!(out, "{}: {}", orphan.file.display(), print::state(State::Orphan))?;
    }
    drop(out);
    update::rendered(&plan)
}

fn show(table: &Table, name: &str, json: bool) -> Result<()> {
    let row = row(table, name)?;
    let source = |s: &Source| match s {
        Source::Cluster(line) => format!("{FILE}:{line}"),
        Source::Defaults(line) => format!("{FILE}:{line}, defaults"),
        Source::Derived(how) => {
            format!("derived from {how}").replace("derived from built-in default", "built-in default")
        }
    };
    if json {
        let values = row.values.iter().map(|v| {
            let value = serde_json::to_value(&v.value).unwrap_or_default();
            (v.key, json!({"value": value, "source": source(&v.source)}))
        });
        let values = object(values);
        return output::json(
            &json!({"cluster": row.text("cluster_name"), "file": format!("{}.yaml", row.stem), "values": values, "node_types": row.types}),
        );
    }
    let mut out = output::stdout();
    writeln!(out, "{}.yaml, from {FILE}:{}\n", row.stem, row.line)?;
    let values: Vec<Vec<String>> =
        row.values.iter().map(|v| vec![v.key.into(), print::value(&v.value), source(&v.source)]).collect();
    super::columns::print(&mut out, &["KEY", "VALUE", "SOURCE"], &values)?;
    writeln!(out)?;
    let types: Vec<Vec<String>> = row
        .types
        .iter()
        .map(|t| {
            let numbers = [t.chips, t.chips / t.chips_per_host.max(1), t.min_workers, t.max_workers];
            let numbers = numbers.map(|n| n.max(u32::from(n == numbers[1])).to_string());
            [vec![t.name.clone(), t.accelerator_type.clone()], numbers.to_vec()].concat()
        })
        .collect();
    super::columns::print(&mut out, &["NODE TYPE", "TPU", "CHIPS", "HOSTS", "MIN", "MAX"], &types)?;
    Ok(())
}

fn validate(files: &[PathBuf], folders: &[PathBuf], json: bool) -> Result<()> {
    let folder = table_folder(folders).ok();
    // A broken table is a finding of its own; without it, some rules cannot be checked.
    let table = match folder.as_deref().map(Table::read).transpose() {
        Ok(table) => table,
        Err(e) => bail!("{e}"),
    };
    let mut plan = Vec::new();
    let files = if files.is_empty() {
        // A template that cannot be rendered is an error in the directory.
        if let (Some(folder), Some(table)) = (&folder, &table) {
            plan = infra::plan(folder, table);
        }
        let mut all = Vec::new();
        for folder in folders {
            all.extend(config::cluster_files(folder)?);
        }
        all.retain(|f| !config::is_template_name(f));
        all
    } else {
        files.to_vec()
    };
    if files.is_empty() {
        bail!("no cluster files to check; specify files, or set the directory with --infra");
    }
    let broken = PlanError::distinct(plan.iter().filter_map(|p| p.error.as_ref()));
    let mut findings = infra::validate(&files, table.as_ref());
    findings.extend(broken.into_iter().map(Finding::from));
    let errors = findings.iter().filter(|f| f.severity == Severity::Error).count();
    if json {
        output::json(&findings.iter().map(print::finding_as_json).collect::<Vec<_>>())?;
    } else {
        let mut out = output::stdout();
        print::findings(&mut out, &findings)?;
        print::summary(&mut out, &findings, files.len())?;
    }
    if errors > 0 {
        bail!("{}", counted(errors, "error"));
    }
    Ok(())
}

/// The command line that sets the tag of these clusters, or of all without a tag of their own.
pub(super) fn set_image_line(tag: &str, clusters: &[String]) -> String {
    let clusters = clusters.iter().map(|cluster| shell_quote(cluster));
    let words = ["configs set-image".to_owned(), shell_quote(tag)].into_iter().chain(clusters);
    Target::default().line(&words.collect::<Vec<_>>().join(" "))
}

/// Writes the tag into the table and updates the files. Refused if the file of the table was edited after it was read,
/// because the edit would be lost.
pub(super) fn set_image(
    folder: &Path,
    table: &Table,
    tag: &str,
    clusters: &[String],
    mode: update::Mode,
) -> Result<()> {
    if let Some(fault) = tag_fault(tag) {
        bail!(fault);
    }
    let stems = stems(table, clusters)?;
    let text = infra::with_tag(table, tag, &stems)?;
    let changed = Table::parse(text.clone(), &table.file)?;
    // The files must be valid before the table is written.
    let planned = update::Update::plan(folder, &changed, &[])?;
    if !mode.diff {
        planned.check_findings()?;
    }
    if !mode.diff {
        let file = table.file.display();
        if yaml::read(&table.file)? != table.text {
            let again = set_image_line(tag, clusters);
            bail!("{file} was edited while the command was running, and was not changed; run `{again}`");
        }
        if text != table.text {
            infra::replace(&table.file, &text).with_context(|| format!("cannot write {file}"))?;
        }
    }
    if !mode.json {
        update::print_diff(&mut output::stdout(), &table.file, &table.text, &text)?;
        for row in changed.rows.iter().filter(|r| stems.is_empty() && r.text("tag") != tag) {
            println!("{} keeps its own tag {}", row.stem, row.text("tag"));
        }
    }
    planned.run(mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_table_that_was_edited_after_it_was_read_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("infra");
        for entry in fs::read_dir(ours).unwrap().flatten().filter(|e| e.path().is_file()) {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        let table = Table::read(dir.path()).unwrap();
        let edited = format!("{}# edited\n", table.text);
        fs::write(&table.file, &edited).unwrap();
        let set = |table: &Table, clusters: &[String]| {
            let mode = Mode { check: false, diff: false, yes: true, json: false };
            set_image(dir.path(), table, "t1", clusters, mode)
        };
        let clusters = ["marin-us-west4".to_owned()];
        let why = set(&table, &clusters).unwrap_err().to_string();
        assert!(why.contains("clusters.yaml was edited"), "{why}");
        assert!(why.ends_with("run `marin-tui configs set-image t1 marin-us-west4`"), "{why}");
        assert_eq!(fs::read_to_string(&table.file).unwrap(), edited);

        set(&Table::read(dir.path()).unwrap(), &clusters).unwrap();
        let written = fs::read_to_string(&table.file).unwrap();
        assert!(written.contains("tag: t1") && written.ends_with("# edited\n"), "{written}");
    }
}
