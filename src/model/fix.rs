//! What to do about a problem, as data. Each front end shows a fix in its own way: the console with the key that is
//! currently bound to it, a command with a command line that can be pasted.

use super::command_line::{self, shell_quote};
use super::text::printable;
use super::{ClusterName, ClusterSpec};
use std::fmt;

/// Fixes in the order in which to try them; empty if the operator can only wait. The texts are safe to print.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint(Vec<Fix>);

/// One fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Advice as text.
    Text(String),
    /// A complete command line, and what it is for.
    Command {
        /// An imperative without a full stop; may be empty.
        purpose: String,
        /// The line to paste into a shell.
        line: String,
    },
    /// An action of this program, available in the console and as a command.
    Action {
        /// An imperative without a full stop.
        purpose: String,
        /// The action.
        verb: Verb,
        /// The command's argument besides the cluster: a worker, a job, a fingerprint, the command of an interrupted
        /// operation; empty if there is none.
        of: String,
    },
}

/// An action of this program. The console's action for each is in `app::action::fixes`, the command in
/// [`Verb::command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read the log of the autoscaler.
    MonitorLog,
    /// Read the output of the machines while Ray is installed on them.
    MonitorOut,
    /// List Ray's nodes.
    Nodes,
    /// List the cluster's TPUs.
    Tpus,
    /// Log in to a machine of the cluster.
    Ssh,
    /// Reconnect now.
    Reconnect,
    /// Compare the fingerprints of a changed host key, and accept the new one.
    HostKey,
    /// Start the cluster.
    Start,
    /// Stop the cluster.
    Stop,
    /// Restart the cluster.
    Restart,
    /// Restart the cluster without saving its jobs.
    RestartWithoutJobs,
    /// Add a worker.
    AddWorker,
    /// Restart Ray on a worker.
    InitWorker,
    /// Remove a worker.
    RemoveWorker,
    /// Remove a worker without draining it.
    RemoveNow,
    /// Delete the cluster's preempted TPUs.
    CleanPreempted,
    /// Resume the interrupted operation.
    Resume,
    /// Resume the interrupted operation after the step at which it failed.
    SkipStep,
    /// Abandon the interrupted operation.
    Abandon,
    /// Take over another operator's operation.
    TakeOver,
    /// Show the Python stacks of a job's workers.
    JobStacks,
    /// Read the log of a job.
    JobLog,
    /// Explain why a job waits, hangs or failed.
    ExplainJob,
    /// Drain the worker: wait until its work has ended.
    Drain,
    /// End the work on the worker.
    EndWork,
    /// Allow ending other people's jobs.
    AllowOthers,
    /// Continue although affected jobs are unknown.
    AllowUnknown,
}

/// What a suggested command line acts on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target<'a> {
    /// The cluster; if none, the command uses the only configured cluster.
    pub cluster: Option<&'a ClusterName>,
    /// The command of the operation that is resumed or abandoned, e.g. `restart-cluster`.
    pub operation: Option<&'static str>,
}

impl<'a> Target<'a> {
    /// A target for commands on this cluster.
    pub const fn of(cluster: &'a ClusterName) -> Self {
        Self { cluster: Some(cluster), operation: None }
    }

    /// The target with the operation of this command.
    #[must_use]
    pub const fn with(self, command: &'static str) -> Self {
        Self { operation: Some(command), ..self }
    }

    /// The command line that runs `rest` on the target, with the options that select it ([`command_line::Given`]).
    pub fn line(&self, rest: &str) -> String {
        command_line::line(self.cluster, rest)
    }
}

impl Verb {
    /// All verbs; scripts rely on their names.
    pub const ALL: &[Self] = &[
        Self::MonitorLog,
        Self::MonitorOut,
        Self::Nodes,
        Self::Tpus,
        Self::Ssh,
        Self::Reconnect,
        Self::HostKey,
        Self::Start,
        Self::Stop,
        Self::Restart,
        Self::RestartWithoutJobs,
        Self::AddWorker,
        Self::InitWorker,
        Self::RemoveWorker,
        Self::RemoveNow,
        Self::CleanPreempted,
        Self::Resume,
        Self::SkipStep,
        Self::Abandon,
        Self::TakeOver,
        Self::JobStacks,
        Self::JobLog,
        Self::ExplainJob,
        Self::Drain,
        Self::EndWork,
        Self::AllowOthers,
        Self::AllowUnknown,
    ];

    /// Name of the action in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MonitorLog => "monitor-log",
            Self::MonitorOut => "monitor-out",
            Self::Nodes => "nodes",
            Self::Tpus => "tpus",
            Self::Ssh => "ssh",
            Self::Reconnect => "reconnect",
            Self::HostKey => "accept-host-key",
            Self::Start => "start-cluster",
            Self::Stop => "stop-cluster",
            Self::Restart => "restart-cluster",
            Self::RestartWithoutJobs => "restart-without-jobs",
            Self::AddWorker => "add-worker",
            Self::InitWorker => "init-worker",
            Self::RemoveWorker => "remove-worker",
            Self::RemoveNow => "remove-worker-now",
            Self::CleanPreempted => "clean-preempted",
            Self::Resume => "resume",
            Self::SkipStep => "skip-step",
            Self::Abandon => "abandon",
            Self::TakeOver => "take-over",
            Self::JobStacks => "stacks",
            Self::JobLog => "job-logs",
            Self::ExplainJob => "explain-job",
            Self::Drain => "drain",
            Self::EndWork => "end-work",
            Self::AllowOthers => "allow-others",
            Self::AllowUnknown => "allow-unknown",
        }
    }

    /// Whether it starts an operation on a cluster or a worker. For resuming one, there must be one.
    const fn starts_operation(self) -> bool {
        matches!(
            self,
            Self::Start
                | Self::Stop
                | Self::Restart
                | Self::RestartWithoutJobs
                | Self::AddWorker
                | Self::InitWorker
                | Self::RemoveWorker
                | Self::RemoveNow
        )
    }

    /// The fix with this verb and purpose.
    pub fn to(self, purpose: impl Into<String>) -> Fix {
        Fix::Action { purpose: clean(&purpose.into()), verb: self, of: String::new() }
    }

    /// The fix with an argument: a worker, a job, a fingerprint, or an operation's command.
    pub fn on(self, of: &str, purpose: impl Into<String>) -> Fix {
        Fix::Action { purpose: clean(&purpose.into()), verb: self, of: of.to_owned() }
    }

    /// The command for this action: a complete command line, or for a permission, the option to add to the refused
    /// command. None if each command does it automatically.
    pub fn command(self, of: &str, target: Target<'_>) -> Option<String> {
        let on = |command: &str| match of {
            "" => command.to_owned(),
            of => format!("{command} {}", shell_quote(of)),
        };
        let again = |option: &str| match (of, target.operation) {
            ("", None) => option.to_owned(),
            ("", Some(command)) | (command, _) => target.line(&format!("{command} {option}")),
        };
        Some(match self {
            // Unlike `ssh`, this command also works with `--address`.
            Self::MonitorLog => target.line("cluster-logs -n 200"),
            Self::MonitorOut => target.line("cluster-logs --file monitor.out -n 200"),
            Self::Nodes => target.line("list-nodes --all"),
            Self::Tpus => target.line("tpus"),
            Self::Ssh => target.line(&on("ssh")),
            // Each command connects automatically.
            Self::Reconnect => return None,
            Self::HostKey if of.is_empty() => target.line("list-jobs --accept-host-key FINGERPRINT"),
            Self::HostKey => target.line(&format!("list-jobs --accept-host-key {}", shell_quote(of))),
            Self::Start => target.line("start-cluster"),
            Self::Stop => target.line("stop-cluster"),
            Self::Restart => target.line("restart-cluster"),
            Self::RestartWithoutJobs => target.line("restart-cluster --preserve-jobs=0"),
            Self::AddWorker => target.line(&format!("add-worker --type {}", argument_or(of, "TYPE"))),
            Self::InitWorker => target.line(&format!("init-worker {}", argument_or(of, "NAME"))),
            Self::RemoveWorker => target.line(&format!("remove-worker {} --drain", argument_or(of, "NAME"))),
            Self::RemoveNow => target.line(&format!("remove-worker {} --now", argument_or(of, "NAME"))),
            Self::CleanPreempted => target.line("clean-preempted"),
            Self::Resume => again("--resume"),
            Self::SkipStep => again("--resume --skip-failed-step"),
            Self::Abandon => again("--abandon"),
            Self::JobStacks => target.line(&format!("stacks {}", argument_or(of, "ID"))),
            Self::JobLog => target.line(&format!("job-logs {}", argument_or(of, "ID"))),
            Self::ExplainJob => target.line(&format!("explain-job {}", argument_or(of, "ID"))),
            Self::TakeOver => "--take-over".to_owned(),
            Self::Drain => "--drain".to_owned(),
            Self::EndWork => "--now".to_owned(),
            Self::AllowOthers | Self::AllowUnknown => "--others".to_owned(),
        })
    }

    /// Whether this is a permission: an option of the refused command and of the dialog.
    pub const fn is_permission(self) -> bool {
        matches!(self, Self::TakeOver | Self::Drain | Self::EndWork | Self::AllowOthers | Self::AllowUnknown)
    }
}

/// The argument, quoted for a shell, or the placeholder if there is none.
fn argument_or(of: &str, placeholder: &str) -> String {
    if of.is_empty() { placeholder.to_owned() } else { shell_quote(of) }
}

impl Fix {
    /// A fix that is a complete command line, and what it is for.
    pub fn command(purpose: impl AsRef<str>, line: impl AsRef<str>) -> Self {
        Self::Command { purpose: clean(purpose.as_ref()), line: clean(line.as_ref()) }
    }

    /// The command that submits the jobs of a backup again.
    pub fn restore_jobs(cluster: &ClusterName, folder: &str, purpose: impl AsRef<str>) -> Self {
        Self::command(purpose, Target::of(cluster).line(&format!("restore-jobs {}", shell_quote(folder))))
    }

    /// What it is for; may be empty for a command line.
    pub fn purpose(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Command { purpose, .. } | Self::Action { purpose, .. } => purpose,
        }
    }

    /// The command line or option; none for advice, and for actions that each command does automatically.
    pub fn line(&self, target: Target<'_>) -> Option<String> {
        match self {
            Self::Text(_) => None,
            Self::Command { line, .. } => Some(line.clone()),
            Self::Action { verb, of, .. } => verb.command(of, target),
        }
    }

    /// The fix as a command prints it.
    pub fn in_commands(&self, target: Target<'_>) -> String {
        match (self.purpose(), self.line(target)) {
            (purpose, None) => purpose.to_owned(),
            ("", Some(line)) => format!("run `{line}`"),
            (purpose, Some(line)) => format!("{purpose}: `{line}`"),
        }
    }

    const fn is_permission(&self) -> bool {
        matches!(self, Self::Action { verb, .. } if verb.is_permission())
    }
}

impl Hint {
    /// No fix: the operator can only wait.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Whether there is no fix.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its fixes, in the order in which to try them.
    pub fn fixes(&self) -> &[Fix] {
        &self.0
    }

    /// The hint with more fixes appended.
    #[must_use]
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// The hint without permissions, for a dialog that has an option for each of them.
    #[must_use]
    pub fn without_permissions(&self) -> Self {
        Self(self.0.iter().filter(|fix| !fix.is_permission()).cloned().collect())
    }

    /// The hint with this action as advice only: its purpose, without a command or an option.
    #[must_use]
    pub fn advising(&self, verb: Verb) -> Self {
        let advice = |fix: &Fix| match fix {
            Fix::Action { purpose, verb: own, .. } if *own == verb => Fix::Text(purpose.clone()),
            fix => fix.clone(),
        };
        Self(self.0.iter().map(advice).collect())
    }

    /// The hint for this cluster: operations that it refuses are advice only, with the reason.
    #[must_use]
    pub fn for_cluster(&self, spec: &ClusterSpec) -> Self {
        let Some(why) = spec.no_operations() else { return self.clone() };
        let advice = |fix: &Fix| match fix {
            Fix::Action { purpose, verb, .. } if verb.starts_operation() => {
                Fix::Text(format!("{purpose} ({why})"))
            }
            fix => fix.clone(),
        };
        Self(self.0.iter().map(advice).collect())
    }

    /// The hint as a command prints it; for the console, see `App::hint`.
    pub fn in_commands(&self, target: Target<'_>) -> String {
        self.0.iter().map(|fix| fix.in_commands(target)).collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for Hint {
    /// The hint as printed without a target, e.g. in the log file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_commands(Target::default()))
    }
}

fn clean(text: &str) -> String {
    printable(text).into_owned()
}

impl From<Fix> for Hint {
    fn from(fix: Fix) -> Self {
        Self(vec![fix])
    }
}

impl<const N: usize> From<[Fix; N]> for Hint {
    fn from(fixes: [Fix; N]) -> Self {
        Self(fixes.into())
    }
}

impl From<&str> for Hint {
    /// Advice as text; no fix if the text is empty.
    fn from(text: &str) -> Self {
        if text.is_empty() { Self::none() } else { Self(vec![Fix::from(text)]) }
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for Hint {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Self> for Hint {
    fn from(hint: &Self) -> Self {
        hint.clone()
    }
}

impl From<&str> for Fix {
    fn from(text: &str) -> Self {
        Self::Text(clean(text))
    }
}

impl From<String> for Fix {
    fn from(text: String) -> Self {
        Self::Text(clean(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_verb_has_a_command_line_that_can_be_pasted() {
        let cluster = ClusterName::new("lab");
        let target = Target::of(&cluster).with("restart-cluster");
        for verb in Verb::ALL {
            match verb.command("w-1", target) {
                Some(option) if verb.is_permission() => {
                    assert!(option.starts_with("--"), "{verb:?}: {option}");
                }
                Some(line) => assert!(line.starts_with("marin-tui -c lab "), "{verb:?}: {line}"),
                None => assert_eq!(*verb, Verb::Reconnect, "each command connects automatically"),
            }
        }
        let names: BTreeSet<&str> = Verb::ALL.iter().map(|verb| verb.name()).collect();
        assert_eq!(names.len(), Verb::ALL.len(), "names are unique for scripts");
        // `AllowUnknown` is the last variant.
        assert_eq!(Verb::ALL.len(), Verb::AllowUnknown as usize + 1);
        assert_eq!(Verb::Resume.command("", target).unwrap(), "marin-tui -c lab restart-cluster --resume");
        for verb in [Verb::MonitorLog, Verb::MonitorOut] {
            let line = verb.command("", target).unwrap();
            assert!(line.contains(" cluster-logs "), "available without SSH: {line}");
        }
        let hostile = Verb::RemoveNow.command("a'; rm \x1b", target).unwrap();
        assert!(hostile.contains(r"remove-worker 'a'\''; rm ") && !hostile.contains('\x1b'), "{hostile}");
    }

    #[test]
    fn all_fixes_of_a_hint_are_printed() {
        let hint = Hint::from("ask bo")
            .and(Verb::Restart.to("restart the cluster"))
            .and(Fix::command("", "chmod 600 key"))
            .and("");
        assert_eq!(
            hint.to_string(),
            "ask bo; restart the cluster: `marin-tui restart-cluster`; run `chmod 600 key`"
        );
        let refused = Hint::from([Fix::from("ask bo"), Verb::AllowOthers.to("allow it")]);
        assert_eq!(refused.to_string(), "ask bo; allow it: `--others`");
        assert_eq!(refused.without_permissions().to_string(), "ask bo");
        assert_eq!(refused.advising(Verb::AllowOthers).to_string(), "ask bo; allow it");
        assert_eq!(refused.advising(Verb::Drain), refused);
        let both = Hint::from([Verb::MonitorLog.to("read it"), Verb::Restart.to("or restart the cluster")]);
        let direct = ClusterSpec::sample("lab", crate::model::Provider::None);
        let refused = "or restart the cluster (needs the cluster file instead of --address)";
        let advice = format!("read it: `marin-tui cluster-logs -n 200`; {refused}");
        assert_eq!(both.for_cluster(&direct).to_string(), advice);
        assert!(Hint::from("").is_empty() && Hint::none().to_string().is_empty());
    }
}
