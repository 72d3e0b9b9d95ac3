//! The one list of actions: keymap, footer, help and palette are all read from it.

/// Where a key is pressed: derived from what is on the screen, never stored beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Context {
    /// The table of the fleet.
    Clusters,
    /// The nodes of all clusters.
    AllNodes,
    /// The jobs of all clusters.
    AllJobs,
    /// The nodes pane of a cluster.
    Nodes,
    /// The jobs pane of a cluster.
    Jobs,
    /// A cluster's log pane.
    Log,
    /// A cluster's autoscaler pane.
    Autoscaler,
    /// The view of a cluster's TPUs.
    Tpus,
    /// A dialog that asks for confirmation.
    Ask,
    /// A dialog that only shows text.
    Tell,
    /// The confirmation of an operation.
    Plan,
    /// The progress of an operation.
    Progress,
    /// The form that submits a job or adds workers.
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
    LastPage,
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

/// The most that an action can do. Each row of the table names it; read-only mode is derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Changes only what is on the screen.
    View,
    /// Reads from a cluster, copies or opens a connection; or confirms a question whose own action was checked before.
    Looks,
    /// Changes a cluster, its machines or its records.
    Changes,
    /// May end jobs.
    Ends,
}

/// An action as the keymap, the footer, the palette and the help show it.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The action that is described.
    pub action: Action,
    /// The most that it can do.
    pub class: Class,
    /// Its name in the keymap and the palette.
    pub name: &'static str,
    /// One or two words for the footer; empty keeps it out.
    pub label: &'static str,
    /// One line for the help: a capitalised imperative.
    pub help: &'static str,
    /// The contexts in which it is available.
    pub contexts: &'static [Context],
}

impl Context {
    /// The place in words, as it follows `in`: `the jobs pane`.
    const fn place(self) -> &'static str {
        match self {
            Self::Clusters => "the fleet",
            Self::AllNodes => "all nodes",
            Self::AllJobs => "all jobs",
            Self::Nodes => "the nodes pane",
            Self::Jobs => "the jobs pane",
            Self::Log => "the log pane",
            Self::Autoscaler => "the autoscaler pane",
            Self::Tpus => "the TPUs",
            Self::Ask | Self::Tell | Self::Plan | Self::Form => "dialogs",
            Self::Progress => "the progress of an operation",
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
    ($($class:ident $action:ident $name:literal $label:literal $contexts:expr, $help:literal;)*) => {
        /// Every action, in the order of the footer and the help.
        pub const ACTIONS: &[Description] = &[$(Description {
            action: Action::$action, class: Class::$class, name: $name, label: $label, help: $help, contexts: $contexts,
        }),*];
    };
}

actions! {
    Ends StopJob "stop-job" "stop" &[Jobs, AllJobs], "Stop the marked jobs, or the selected one, after confirmation, and watch until they have ended";
    Changes DeleteJob "delete-job" "delete" &[Jobs, AllJobs], "Delete the records of ended jobs (the marked ones, or the selected one) from Ray, after confirmation";
    View Progress "progress" "progress" VIEWS, "Show the progress of the cluster's operation";
    Looks Log "log" "log" &[Nodes, Jobs, AllNodes, AllJobs, Autoscaler], "Follow the log of the selection: a job's driver, a node's raylet, the autoscaler's monitor (again: its next file)";
    Changes CleanPreempted "clean-preempted" "delete preempted" &[Tpus], "Delete the cluster's preempted TPUs, after confirmation";
    Ends RemoveWorker "remove-worker" "remove" WORKERS, "Remove the selected worker, drained or at once (shows affected jobs first)";
    Ends InitWorker "init-worker" "init" WORKERS, "Restart Ray on the selected worker (shows affected jobs first)";
    Ends Resume "resume" "resume" &[Progress], "Resume the operation at the step where it stopped";
    Ends RollForward "roll-forward" "skip failed step" &[Progress], "Skip the failed step and continue, where later steps do not need it";
    Changes Abandon "abandon" "abandon" &[Progress], "Abandon the interrupted operation and leave the cluster as it is, after confirmation";
    Changes Cancel "cancel" "cancel" &[Progress], "Cancel the operation before it changes anything; when only Google is waited for, stop waiting";
    View Mark "mark" "mark" &[Jobs, AllJobs, Plan], "Mark or unmark the job; in a dialog, toggle the option";
    View Follow "follow" "follow" &[Log], "Toggle follow: keep the end of the log in view";
    View Wrap "wrap" "wrap" &[Log], "Toggle wrapping of long lines";
    Looks Describe "describe" "describe" TABLES, "Describe the selection in full";
    Looks Copy "copy" "copy" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Tpus, Plan, Progress], "Copy the selection's id, the log's visible lines, or the announcement of an operation";
    Looks Open "open" "open" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Autoscaler, Tpus, Ask, Tell, Plan, Form], "Open the selection; in a dialog, press the focused button";
    View Filter "filter" "filter" SEARCHED, "Filter the table (! inverts), or search the log";
    View AllNodes "all-nodes" "all nodes" FLEET, "Show the nodes of all clusters in one table";
    View AllJobs "all-jobs" "all jobs" FLEET, "Show the jobs of all clusters in one table";
    Looks Dashboard "dashboard" "dashboard" VIEWS, "Open the cluster's dashboard in the browser";
    Looks Ports "ports" "" VIEWS, "Open or close local ports for the cluster's dashboard, GCS and Ray client";
    Looks CopyToken "copy-token" "token" VIEWS, "Copy the cluster's token to the clipboard; it is never shown";
    Looks Ssh "ssh" "ssh" VIEWS, "Log in by SSH to the head, or to the selected TPU's host; logging out returns to the console";
    Looks Tpus "tpus" "tpus" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Log, Autoscaler], "Show the cluster's TPUs in Google Cloud, joined with Ray's nodes";
    Looks Reconnect "reconnect" "reconnect" VIEWS, "Reconnect now";
    Looks HostKey "host-key" "host key" VIEWS, "Review a changed host key";
    Ends Restart "restart" "restart" VIEWS, "Restart the cluster and restore its jobs (shows affected jobs first)";
    Changes Start "start" "" VIEWS, "Start the cluster";
    Ends StopCluster "stop-cluster" "" VIEWS, "Stop the cluster (shows affected jobs first)";
    Changes AddWorker "add-worker" "add worker" VIEWS, "Add workers to the cluster, outside the autoscaler, with a form";
    Changes Submit "submit" "submit" &[Clusters, AllNodes, AllJobs, Nodes, Jobs, Autoscaler], "Submit a job with a form";
    Changes Resubmit "resubmit" "submit again" &[Jobs, AllJobs], "Submit the selected job again: the form is filled with its settings";
    View Zoom "zoom" "zoom" CLUSTER, "Zoom the focused pane to the whole window, or back";
    View NextPane "next-pane" "" &[Nodes, Jobs, Log, Autoscaler, Ask, Plan, Form], "Focus the next pane, field or button";
    View PreviousPane "previous-pane" "" &[Nodes, Jobs, Log, Autoscaler, Ask, Plan, Form], "Focus the previous pane, field or button";
    View Pane1 "pane-1" "" CLUSTER, "Focus the nodes";
    View Pane2 "pane-2" "" CLUSTER, "Focus the jobs";
    View Pane3 "pane-3" "" CLUSTER, "Focus the log";
    View Pane4 "pane-4" "" CLUSTER, "Focus the autoscaler";
    View Up "up" "" MOVED, "Move up one row";
    View Down "down" "" MOVED, "Move down one row";
    View HalfUp "half-page-up" "" SCROLLED, "Move up half a page";
    View HalfDown "half-page-down" "" SCROLLED, "Move down half a page";
    View PageUp "page-up" "" MOVED, "Move up one page";
    View PageDown "page-down" "" MOVED, "Move down one page";
    View Top "top" "" SCROLLED, "Go to the first row";
    View Bottom "bottom" "" SCROLLED, "Go to the last row; a log follows again";
    View NextMatch "next-match" "" &[Log], "Go to the next match of the search";
    View PreviousMatch "previous-match" "" &[Log], "Go to the previous match of the search";
    View SortNext "sort-next" "" TABLES, "Sort by the next column";
    View SortPrevious "sort-previous" "" TABLES, "Sort by the previous column";
    View SortInvert "sort-invert" "" TABLES, "Reverse sort order";
    Looks Refresh "refresh" "" VIEWS, "Refresh the cluster's data now";
    View LastPage "last-page" "" VIEWS, "Go to the last page";
    View Clusters "clusters" "fleet" BELOW, "Show the fleet: all clusters, those with issues first";
    View Messages "messages" "" VIEWS, "Show the console's messages so far";
    View Palette "palette" "commands" VIEWS, "Run an action by name, or open a cluster with `cluster NAME`";
    View Help "help" "help" SCROLLED, "Show this list";
    Looks Accept "accept" "" &[Ask], "Confirm";
    View Back "back" "" EVERYWHERE, "Go back: out of a dialog, a filter, a zoomed pane, the cluster";
    View Quit "quit" "quit" EVERYWHERE, "Leave the dialog or view; in the fleet, quit";
    View ForceQuit "force-quit" "" EVERYWHERE, "Quit at once";
    View Redraw "redraw" "" EVERYWHERE, "Redraw the screen";
    View Suspend "suspend" "" EVERYWHERE, "Suspend the console; `fg` in the shell resumes it";
}

impl Description {
    /// The label that the footer shows in that context.
    pub fn label_in(&self, context: Context) -> &'static str {
        match (self.action, context) {
            (Action::Filter, Log) => "search",
            _ => self.label,
        }
    }

    /// The places where it is available, in words: `the jobs pane or all jobs`.
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
    /// The entry of the action in [`ACTIONS`].
    pub fn describe(self) -> &'static Description {
        // The table is complete: a test counts.
        ACTIONS.iter().find(|d| d.action == self).unwrap_or(&ACTIONS[0])
    }

    /// Whether it leads to a change of a cluster; read-only mode refuses it.
    pub fn changes_a_cluster(self) -> bool {
        self.describe().class >= Class::Changes
    }

    /// The action with that name in the keymap; none if there is no such action.
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
