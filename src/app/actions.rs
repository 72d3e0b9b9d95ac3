//! The one list of actions: keymap, footer, help and palette are all read from it.

/// Where a key is pressed: derived from what is on the screen, never stored beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Context {
    /// The fleet.
    Clusters,
    /// The nodes of all clusters.
    AllNodes,
    /// The jobs of all clusters.
    AllJobs,
    /// A cluster's nodes.
    Nodes,
    /// A cluster's jobs.
    Jobs,
    /// A cluster's log pane.
    Log,
    /// A cluster's autoscaler pane.
    Autoscaler,
    /// A cluster's TPUs.
    Tpus,
    /// A dialog that asks.
    Ask,
    /// A dialog that tells.
    Tell,
    /// The dialog before an operation.
    Plan,
    /// An operation's progress.
    Progress,
    /// The form of a job, or of workers.
    Form,
}

/// What a key can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is described in the table below")]
pub enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    Top,
    Bottom,
    Open,
    Back,
    Quit,
    ForceQuit,
    Accept,
    NextPane,
    PreviousPane,
    Pane1,
    Pane2,
    Pane3,
    Pane4,
    Zoom,
    Restart,
    Start,
    StopCluster,
    AddWorker,
    RemoveWorker,
    InitWorker,
    Progress,
    Resume,
    RollForward,
    Abandon,
    Cancel,
    Mark,
    StopJob,
    DeleteJob,
    Submit,
    Resubmit,
    Log,
    Describe,
    Copy,
    CopyToken,
    Dashboard,
    Ports,
    Ssh,
    Filter,
    NextMatch,
    PreviousMatch,
    Follow,
    Wrap,
    SortNext,
    SortPrevious,
    SortInvert,
    Refresh,
    Reconnect,
    HostKey,
    Clusters,
    AllNodes,
    AllJobs,
    Tpus,
    CleanPreempted,
    Messages,
    Palette,
    Help,
    Redraw,
    Suspend,
}

/// An action as people meet it.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The action.
    pub action: Action,
    /// Its name in the keymap and the palette.
    pub name: &'static str,
    /// One or two words for the footer; empty keeps it out.
    pub label: &'static str,
    /// One line for the help.
    pub help: &'static str,
    /// Where it means something.
    pub contexts: &'static [Context],
}

impl Context {
    /// In words, after `in`.
    const fn place(self) -> &'static str {
        match self {
            Self::Clusters => "the fleet",
            Self::AllNodes => "the nodes of all",
            Self::AllJobs => "the jobs of all",
            Self::Nodes => "the nodes pane",
            Self::Jobs => "the jobs pane",
            Self::Log => "the log pane",
            Self::Autoscaler => "the autoscaler pane",
            Self::Tpus => "the tpus",
            Self::Ask | Self::Tell | Self::Plan | Self::Form => "dialogs",
            Self::Progress => "an operation's progress",
        }
    }
}

use Context::{
    AllJobs, AllNodes, Ask, Autoscaler, Clusters, Form, Jobs, Log, Nodes, Plan, Progress, Tell, Tpus,
};

const EVERYWHERE: &[Context] =
    &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Autoscaler, Tpus, Ask, Tell, Plan, Progress, Form];
const VIEWS: &[Context] = &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Autoscaler, Tpus];
const SCROLLED: &[Context] =
    &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Autoscaler, Tpus, Ask, Tell, Plan, Progress];
const MOVED: &[Context] =
    &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Autoscaler, Tpus, Ask, Tell, Plan, Progress, Form];
const CLUSTER: &[Context] = &[Nodes, Jobs, Log, Autoscaler];
const SEARCHED: &[Context] = &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Tpus];
const TABLES: &[Context] = &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Tpus];
const WORKERS: &[Context] = &[Nodes, AllNodes, Tpus];
const FLEET: &[Context] = &[Clusters, AllNodes, AllJobs];
const BELOW: &[Context] = &[AllNodes, AllJobs, Nodes, Jobs, Log, Autoscaler, Tpus];

macro_rules! actions {
    ($($action:ident $name:literal $label:literal $contexts:expr, $help:literal;)*) => {
        /// Every action, in the order of the footer and the help.
        pub const ACTIONS: &[Description] = &[$(Description {
            action: Action::$action, name: $name, label: $label, help: $help, contexts: $contexts,
        }),*];
    };
}

actions! {
    StopJob "stop-job" "stop" &[Jobs, AllJobs], "stop the marked jobs, else the selected one; asks first, then watches whether they really end";
    DeleteJob "delete-job" "delete" &[Jobs, AllJobs], "make ray forget the marked jobs, else the selected one, once they have ended; asks first";
    Progress "progress" "progress" VIEWS, "how the operation on the cluster goes on";
    Log "log" "log" &[Nodes, Jobs, AllNodes, AllJobs, Autoscaler], "follow the log of the selection: a job's driver, a node's raylet, the autoscaler's monitor (again: the next file)";
    CleanPreempted "clean-preempted" "delete preempted" &[Tpus], "delete the cluster's TPUs that were preempted; asks first";
    RemoveWorker "remove-worker" "remove" WORKERS, "remove the selected worker, drained or at once; says first whom it hits";
    InitWorker "init-worker" "init" WORKERS, "start ray anew on the selected worker; says first whom it hits";
    Resume "resume" "resume" &[Progress], "go on with the operation where it stopped";
    RollForward "roll-forward" "go on past it" &[Progress], "go on with the operation past the step that failed, where that is possible";
    Abandon "abandon" "leave it so" &[Progress], "forget the operation that stopped: the cluster stays as it is; asks first";
    Cancel "cancel" "cancel" &[Progress], "end the operation, as long as nothing was changed; where google is only waited for, stop waiting";
    Mark "mark" "mark" &[Jobs, AllJobs, Plan], "mark the job, or take its mark away; in a dialog turn the switch";
    Follow "follow" "follow" &[Log], "follow the end of the log, or stop following";
    Wrap "wrap" "wrap" &[Log], "wrap long lines";
    Describe "describe" "describe" TABLES, "everything that is known about the selection";
    Copy "copy" "copy" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Tpus, Plan, Progress], "copy the selection's id, the log's visible lines, or the announcement of an operation";
    Open "open" "open" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Autoscaler, Tpus, Ask, Tell, Plan, Form], "open the selection; in a dialog press the focused button";
    Filter "filter" "filter" SEARCHED, "filter the table (! inverts), or search the log";
    AllNodes "all-nodes" "nodes of all" FLEET, "the nodes of all clusters in one table";
    AllJobs "all-jobs" "jobs of all" FLEET, "the jobs of all clusters in one table";
    Dashboard "dashboard" "dashboard" VIEWS, "open the cluster's dashboard in the browser";
    Ports "ports" "" VIEWS, "open local ports for the cluster's dashboard, GCS and Ray client, or close them";
    CopyToken "copy-token" "token" VIEWS, "copy the cluster's token; it is never shown";
    Ssh "ssh" "ssh" VIEWS, "log in to the head, or to the selected TPU's host; the console comes back afterwards";
    Tpus "tpus" "tpus" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Autoscaler], "the cluster's TPUs as google cloud has them, joined with ray's nodes";
    Reconnect "reconnect" "reconnect" VIEWS, "connect anew now";
    HostKey "host-key" "host key" VIEWS, "review a changed host key";
    Restart "restart" "restart" VIEWS, "restart the cluster with its jobs; says first whom it hits";
    Start "start" "" VIEWS, "start the cluster";
    StopCluster "stop-cluster" "" VIEWS, "stop the cluster; says first whom it hits";
    AddWorker "add-worker" "add worker" VIEWS, "add workers to the cluster, outside the autoscaler: a form";
    Submit "submit" "submit" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Autoscaler], "submit a job: a form";
    Resubmit "resubmit" "submit again" &[Jobs, AllJobs], "submit the selected job again, with changes: the form with what it was submitted with";
    Zoom "zoom" "zoom" CLUSTER, "give the pane the whole window, or take it back";
    NextPane "next-pane" "" &[Nodes, Jobs, Log, Autoscaler, Ask, Plan, Form], "focus the next pane, field or button";
    PreviousPane "previous-pane" "" &[Nodes, Jobs, Log, Autoscaler, Ask, Plan, Form], "focus the previous pane, field or button";
    Pane1 "pane-1" "" CLUSTER, "focus the nodes";
    Pane2 "pane-2" "" CLUSTER, "focus the jobs";
    Pane3 "pane-3" "" CLUSTER, "focus the log";
    Pane4 "pane-4" "" CLUSTER, "focus the autoscaler";
    Up "up" "" MOVED, "one row up";
    Down "down" "" MOVED, "one row down";
    HalfUp "half-page-up" "" SCROLLED, "half a page up";
    HalfDown "half-page-down" "" SCROLLED, "half a page down";
    PageUp "page-up" "" MOVED, "a page up";
    PageDown "page-down" "" MOVED, "a page down";
    Top "top" "" SCROLLED, "to the first row";
    Bottom "bottom" "" SCROLLED, "to the last row; a log follows again";
    NextMatch "next-match" "" &[Log], "next match of the search";
    PreviousMatch "previous-match" "" &[Log], "previous match of the search";
    SortNext "sort-next" "" TABLES, "sort by the next column";
    SortPrevious "sort-previous" "" TABLES, "sort by the previous column";
    SortInvert "sort-invert" "" TABLES, "turn the order round";
    Refresh "refresh" "" VIEWS, "read the cluster now";
    Clusters "clusters" "fleet" BELOW, "the fleet: all clusters, trouble first";
    Messages "messages" "" VIEWS, "what the console has said so far";
    Palette "palette" "commands" VIEWS, "run an action by name, or `cluster NAME`";
    Help "help" "help" SCROLLED, "this list";
    Accept "accept" "" &[Ask], "say yes";
    Back "back" "" EVERYWHERE, "leave: a dialog, a filter, a zoomed pane, the cluster";
    Quit "quit" "quit" EVERYWHERE, "leave; in the fleet, quit";
    ForceQuit "force-quit" "" EVERYWHERE, "quit at once";
    Redraw "redraw" "" EVERYWHERE, "paint the screen anew";
    Suspend "suspend" "" EVERYWHERE, "suspend the console; `fg` in the shell brings it back";
}

impl Description {
    /// The words for the footer there.
    pub fn label_in(&self, context: Context) -> &'static str {
        match (self.action, context) {
            (Action::Filter, Log) => "search",
            _ => self.label,
        }
    }

    /// Where it means something, in words: `the jobs pane or the jobs of all`.
    pub fn places(&self) -> String {
        let has = |all: &[Context]| all.iter().all(|c| self.contexts.contains(c));
        let panes = if has(CLUSTER) { CLUSTER } else { &[] };
        let mut places: Vec<&str> = if panes.is_empty() { Vec::new() } else { vec!["a cluster's panes"] };
        for place in self.contexts.iter().filter(|c| !panes.contains(c)).map(|c| c.place()) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        match places.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            Some((only, _)) => (*only).to_owned(),
            None => String::new(),
        }
    }
}

impl Action {
    /// Its description.
    pub fn describe(self) -> &'static Description {
        // The table is complete: a test counts.
        ACTIONS.iter().find(|d| d.action == self).unwrap_or(&ACTIONS[0])
    }

    /// Whether it leads to something that changes a cluster: refused where nothing may be changed.
    pub fn changes_a_cluster(self) -> bool {
        matches!(
            self,
            Self::Restart
                | Self::Start
                | Self::StopCluster
                | Self::AddWorker
                | Self::RemoveWorker
                | Self::InitWorker
                | Self::Resume
                | Self::RollForward
                | Self::Abandon
                | Self::Cancel
                | Self::StopJob
                | Self::CleanPreempted
                | Self::DeleteJob
                | Self::Submit
                | Self::Resubmit
        )
    }

    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        ACTIONS.iter().find(|d| d.name == name).map(|d| d.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_action_is_in_the_table_once() {
        let all: BTreeSet<Action> = ACTIONS.iter().map(|d| d.action).collect();
        let names: BTreeSet<&str> = ACTIONS.iter().map(|d| d.name).collect();
        assert_eq!(all.len(), ACTIONS.len());
        assert_eq!(names.len(), ACTIONS.len());
        // `Suspend` is the enum's last.
        assert_eq!(all.len(), Action::Suspend as usize + 1);
        assert!(ACTIONS.iter().all(|d| !d.help.is_empty() && !d.contexts.is_empty()));
    }
}
