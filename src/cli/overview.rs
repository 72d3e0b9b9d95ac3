//! The help of the program itself: the commands by what they act on, as on the manual's page `commands`.

use super::arguments::GlobalArguments;
use super::output::is_terminal;
use crate::tui::terminal_width;
use clap::{Arg, ArgAction, Args as _};

/// Maximum width in columns, as in clap's help of each command.
const MAX_WIDTH: usize = 100;
/// Minimum width of the descriptions.
const MIN_TEXT: usize = 20;

/// The headings, each with its commands in the order in which they are listed.
pub const GROUPS: &[(&str, &[&str])] = &[
    (
        "Clusters",
        &[
            "clusters",
            "status",
            "restart-cluster",
            "start-cluster",
            "stop-cluster",
            "update-cluster",
            "run-cleanup",
            "audit",
        ],
    ),
    (
        "Jobs",
        &[
            "list-jobs",
            "job-status",
            "job-logs",
            "job-workers",
            "explain-job",
            "stacks",
            "submit-job",
            "wait-job",
            "stop-job",
            "delete-job",
            "backup-jobs",
            "restore-jobs",
            "backups",
        ],
    ),
    (
        "Nodes, workers and TPUs",
        &[
            "list-nodes",
            "chips",
            "cluster-logs",
            "tpus",
            "add-worker",
            "init-worker",
            "remove-worker",
            "clean-preempted",
        ],
    ),
    ("Access", &["setup", "auth", "auth-env", "forward", "ssh", "exec", "token", "trust"]),
    ("Cluster files and images", &["configs", "image", "registry"]),
    ("This program", &["demo", "help", "print-settings", "completions", "man"]),
];

/// The program's help. Clap itself lists commands without headings, and `--help` would be three screens long.
pub(super) fn help(commands: &clap::Command, examples: &'static str) -> String {
    let about = env!("CARGO_PKG_DESCRIPTION");
    // Without the commands, so that clap lists the options alone.
    let options = GlobalArguments::augment_args(clap::Command::default().name("marin-tui"))
        .version(env!("CARGO_PKG_VERSION"))
        .about(about)
        .after_help(examples)
        .override_usage("marin-tui [OPTIONS] [COMMAND]")
        // Clap's own option announces a longer help.
        .disable_help_flag(true)
        .arg(Arg::new("help").short('h').long("help").action(ArgAction::Help).help("Print help"));
    let template = "{about-with-newline}\n{usage-heading} {usage}\n\n";
    options
        .help_template(format!("{template}{}{{all-args}}{{after-help}}", groups(commands)))
        .render_help()
        .to_string()
}

/// The commands under their headings, each with its description.
fn groups(commands: &clap::Command) -> String {
    let names = || GROUPS.iter().flat_map(|(_, names)| *names);
    let indent = names().map(|name| name.len()).max().unwrap_or(0) + 4;
    let width = terminal_width().filter(|_| is_terminal()).map_or(MAX_WIDTH, usize::from);
    let width = width.clamp(indent + MIN_TEXT, MAX_WIDTH);
    let row = |name: &str| {
        let about = commands.find_subcommand(name).and_then(clap::Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let (first, others) = (format!("  {name:<0$}", indent - 2), " ".repeat(indent));
        let options = textwrap::Options::new(width).initial_indent(&first).subsequent_indent(&others);
        textwrap::fill(&about, options)
    };
    let group = |(heading, names): &(&str, &[&str])| {
        let rows: Vec<String> = names.iter().map(|name| row(name)).collect();
        format!("{heading}:\n{}\n\n", rows.join("\n"))
    };
    GROUPS.iter().map(group).collect()
}
