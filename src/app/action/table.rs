//! The table of actions: the keymap, the footer, the help, the palette and read-only mode are all derived from it.
//!
//! To add an action, add a row below and the function that it names.

use crate::app::action::context::{Context, EVERYWHERE, EVERYWHERE_BUT_FORMS, PAGES, PAGES_BUT_FLEET};
use crate::app::action::impact::Impact;

/// An action in words: how the keymap, the footer, the palette and the help show it, and where it is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Description {
    /// The most severe outcome of the action.
    pub impact: Impact,
    /// Its name in the keymap and the palette.
    pub name: &'static str,
    /// One or two words for the footer; empty: not in the footer.
    pub label: &'static str,
    /// One line for the help: an imperative, capitalized.
    pub help: &'static str,
    /// Synonyms, separated by spaces, by which the palette also finds it.
    pub keywords: &'static str,
    /// The contexts in which it is available.
    pub contexts: &'static [Context],
}

use Context::{
    AllJobs, AllNodes, AllTpus, Ask, Autoscaler, Clusters, Columns, Form, Info, Job, JobWorkers, Jobs, Log,
    Node, Nodes, Plan, Progress, Slice, Table, Text, Tpu, Tpus,
};

const CLUSTER: &[Context] = &[Nodes, Jobs, Log, Autoscaler];
const SEARCHED: &[Context] = &[
    Clusters, AllNodes, AllJobs, AllTpus, Table, Nodes, Jobs, Log, Tpus, Slice, JobWorkers, Node, Job, Tpu,
    Info,
];
const TABLES: &[Context] =
    &[Clusters, AllNodes, AllJobs, AllTpus, Table, Nodes, Jobs, Tpus, Slice, JobWorkers];
const WORKERS: &[Context] = &[Nodes, AllNodes, AllTpus, Tpus, Slice, Node, Tpu];
const OF_CHIPS: &[Context] = &[Jobs, AllJobs, Nodes, AllNodes, Tpus, AllTpus, Slice, Node, Tpu, Job, Info];
const OF_JOBS: &[Context] = &[Jobs, AllJobs, JobWorkers, Job];

/// Passes all actions to another macro, in the order of the footer and the help. Each row: the most severe outcome, the
/// action, its name, its label in the footer (empty: not there), its contexts; whether it has an effect now (the footer
/// omits it otherwise); the function that runs it; its help.
///
/// The functions are names of [`super::handlers`], the only file that uses them: what an action is called depends on
/// nothing, what it does on the whole console.
macro_rules! each_action {
    ($callback:ident) => {
        $callback! {
            Reads Open "open" "open" &[Clusters, AllNodes, AllJobs, AllTpus, Table, Nodes, Jobs, Autoscaler, Tpus, Slice, JobWorkers, Node, Job, Log, Ask, Text, Plan, Form, Columns], may_open, App::open,
                "Open the selection; in a log, show the lines that a `[repeated ...]` line stands for; in a dialog, press the focused button";
            View Filter "filter" "filter" SEARCHED, always, |app, _| app.begin_filter(),
                "Filter the table or the text (!word inverts, status:failed searches one column), or search the log";
            Reads SearchLogs "search-logs" "" &[Clusters, AllNodes, AllJobs, Table, Nodes, Jobs, Autoscaler, Slice, JobWorkers, Job], always, App::begin_search_logs,
                "Search the logs of all clusters, of the page's cluster or job, or of the marked jobs, and list the lines that match",
                keywords "grep find";
            View Palette "palette" "commands" PAGES, always, |app, _| app.begin_command(),
                "Run an action by name, or open a cluster with `cluster NAME`";
            Ends StopJob "stop-job" "stop" OF_JOBS, may_stop, App::ask_to_stop,
                "Stop the marked jobs, or the selected one, after confirmation, and watch until they have ended",
                keywords "kill terminate";
            Changes DeleteJob "delete-job" "delete" OF_JOBS, may_delete, App::ask_to_delete,
                "Delete the records of ended jobs (the marked ones, or the selected one) from Ray, after confirmation";
            View Progress "progress" "progress" PAGES, has_operation, App::show_progress,
                "Show the progress of the cluster's operation";
            Reads Log "log" "log" &[Nodes, Jobs, AllNodes, AllJobs, Table, Autoscaler, Slice, JobWorkers, Node, Job], has_log, App::open_log,
                "Follow the log of the selection: a job's driver (of marked jobs: all together), a worker's file, a node's raylet, the autoscaler's monitor (press again for the next file)",
                keywords "tail";
            Reads Stacks "stacks" "stacks" &[Jobs, AllJobs, Table, JobWorkers, Job, Nodes, AllNodes, Slice, Node, Info], has_driver, App::take_stacks,
                "Show the Python stacks of the workers of the job, or of the slice's job, with identical stacks grouped (press again to refresh)",
                keywords "traceback py-spy hang";
            Reads Chips "chips" "chips" OF_CHIPS, has_chips, App::take_chips,
                "Show duty cycle and memory of each chip of the slice or the job (press again to refresh)",
                keywords "usage duty";
            Reads Workers "job-workers" "workers" &[Jobs, AllJobs, Table, Job], has_job, App::show_workers,
                "Show the worker processes of the job: which are silent or lag behind, their log lines, the root cause";
            Reads LogWorkers "log-workers" "" &[Log], always, App::show_workers,
                "Show the workers of this log's job";
            Reads WorkerOverview "overview" "" &[JobWorkers], always, |app, _| app.turn_workers(WorkersView::Overview),
                "Show one row per worker: last line, its age, step; silent and lagging workers first";
            Reads Folded "folded" "" &[JobWorkers], always, |app, _| app.turn_workers(WorkersView::Folded),
                "Show identical lines of many workers as one row; opening it lists the workers that wrote it and those that did not";
            Reads ByTime "by-time" "" &[JobWorkers], always, |app, _| app.turn_workers(WorkersView::Merged),
                "Show the lines of all workers in time order";
            Reads FollowWorkers "follow-workers" "follow all" &[JobWorkers], always, App::follow_workers,
                "Follow the logs of all workers together, each line with its worker";
            Reads RootCause "root-cause" "" &[JobWorkers], always, |app, _| app.turn_workers(WorkersView::Cause),
                "Show why the job failed or hangs: the earliest error of all workers, and what followed";
            Changes CleanPreempted "clean-preempted" "delete preempted" &[Tpus, AllTpus], may_clean, App::ask_to_clean,
                "Delete the cluster's preempted TPUs, after confirmation";
            Ends RemoveWorker "remove-worker" "remove" WORKERS, has_worker, App::remove_worker,
                "Remove the selected worker node, after draining it or immediately (shows affected jobs first)";
            Ends InitWorker "init-worker" "restart Ray" WORKERS, has_worker, App::init_worker,
                "Restart Ray on the selected worker node (shows affected jobs first)";
            Ends Resume "resume" "resume" &[Progress], is_interrupted, App::resume,
                "Resume the operation at the step where it stopped";
            Ends SkipStep "skip-step" "skip failed step" &[Progress], may_skip, App::skip_step,
                "Skip the failed step and continue, if no later step needs it";
            Changes Abandon "abandon" "abandon" &[Progress], is_interrupted, App::abandon,
                "Abandon the interrupted operation and leave the cluster as it is, after confirmation";
            Changes Cancel "cancel" "cancel" &[Progress], may_cancel, App::cancel,
                "Cancel the operation before it changes anything, or stop waiting for Google";
            View Mark "mark" "mark" &[Jobs, AllJobs, Plan, Columns], has_submission, App::mark,
                "Mark or unmark the job; in a dialog, toggle the option";
            View MarkRange "mark-range" "" &[Jobs, AllJobs], has_submission, App::mark_range,
                "Mark all jobs from the nearest marked one to the selected one";
            Reads ChooseLog "choose-log" "" &[Log], always, App::choose_log,
                "Choose another log of the cluster from a list: jobs, workers, nodes, the autoscaler";
            Reads SavePage "save-page" "save" &[Node, Job, Tpu, Info], always, App::begin_save,
                "Save the page as text to a file, without filtered-out lines";
            View Follow "follow" "follow" &[Log], always, |app, _| app.in_log(LogView::toggle_follow),
                "Toggle follow: keep the end of the log in view",
                keywords "tail";
            View Wrap "wrap" "wrap" &[Log], always, |app, now| app.toggle_unless_raw(|show| &mut show.wrap, now),
                "Toggle wrapping of long lines";
            View NextMatch "next-match" "" &[Log], always, |app, now| app.match_step(true, now),
                "Go to the next match of the search";
            View PreviousMatch "previous-match" "" &[Log], always, |app, now| app.match_step(false, now),
                "Go to the previous match of the search";
            View ShowLines "filter-lines" "lines" &[Log], always, |app, _| app.begin_lines(),
                "Show only log lines that match a pattern (!pattern: lines that do not match; empty: all lines)",
                keywords "grep filter";
            View MoreContext "more-context" "" &[Log], always, |app, now| app.widen(true, now),
                "Show one more line of context around each match, up to 9";
            View LessContext "less-context" "" &[Log], always, |app, now| app.widen(false, now),
                "Show one fewer line of context around each match";
            Reads SearchWhole "search-file" "" &[Log], always, App::search_whole,
                "Search the whole log for the current pattern, on the head where possible, and list the matches",
                keywords "grep find";
            View Levels "levels" "" &[Log], always, |app, _| app.in_log(LogView::turn_levels),
                "Show only warnings and errors, then only errors, then all lines",
                keywords "warnings severity";
            View NextError "next-error" "error" &[Log], always, |app, now| app.error_step(true, now),
                "Go to the next line that reports an error";
            View PreviousError "previous-error" "" &[Log], always, |app, now| app.error_step(false, now),
                "Go to the previous line that reports an error";
            View MarkLine "mark-line" "" &[Log], always, |app, _| app.in_log(LogView::toggle_mark),
                "Mark or unmark the current line, or the first visible one; the copy list then offers the lines from the mark to the current line";
            View NextMark "next-mark" "" &[Log], always, |app, now| app.mark_step(true, now),
                "Go to the next marked line";
            View PreviousMark "previous-mark" "" &[Log], always, |app, now| app.mark_step(false, now),
                "Go to the previous marked line";
            View Since "since" "since" &[Log], always, |app, now| app.ask_log(now, |log| log.step_since(now)),
                "Show only log lines from the last 1m, 5m, 15m or 1h (press again to cycle; then all lines)";
            View SinceTime "since-time" "" &[Log], always, |app, _| app.begin_since(),
                "Show only log lines since a time (14:05, 2026-11-20 14:05) or an age (10m)";
            View Times "times" "times" &[Log], always, |app, _| app.in_log(|log| log.toggle(|show| &mut show.times)),
                "Show or hide the time of each line: its timestamp, or with ~ the time at which it was received";
            View GoTo "go-to" "" &[Log], always, |app, _| app.begin_go_to(),
                "Go to a line (120), a percentage (50%), a time (14:05) or an age (-5m)";
            View Histogram "histogram" "histogram" &[Log], always, |app, _| app.in_log(|log| log.toggle(|show| &mut show.histogram)),
                "Toggle the histogram of lines and errors over time";
            View NextTime "next-bar" "" &[Log], always, |app, now| app.ask_log(now, |log| log.step_in_time(true)),
                "Go to the next non-empty bar of the histogram";
            View PreviousTime "previous-bar" "" &[Log], always, |app, now| app.ask_log(now, |log| log.step_in_time(false)),
                "Go to the previous non-empty bar of the histogram";
            View Noise "noise" "" &[Log], always, |app, now| app.toggle_unless_raw(|show| &mut show.noise, now),
                "Show or hide known noise (JAX, XLA, libtpu, absl)";
            View LiveProgress "progress-line" "" &[Log], always, |app, _| app.in_log(|log| log.toggle(|show| &mut show.progress)),
                "Show or hide the progress line: step, loss, rate, time left";
            View Raw "raw" "" &[Log], always, |app, _| app.in_log(|log| log.toggle(|show| &mut show.raw)),
                "Toggle raw lines: nothing hidden or truncated";
            Reads SaveLog "save-log" "save" &[Log], always, App::begin_save,
                "Save the loaded lines to a file, without filtered-out lines";
            Reads Pager "pager" "" &[Log], always, |app, now| app.view_log(Viewer::Pager, now),
                "Open the loaded lines in $PAGER, without filtered-out lines";
            Reads Editor "editor" "" &[Log], always, |app, now| app.view_log(Viewer::Editor, now),
                "Open the loaded lines in $VISUAL or $EDITOR, without filtered-out lines";
            View BySlice "by-slice" "slices" &[Nodes, AllNodes], always, |app, _| app.toggle_slices(),
                "Show nodes by slice, or one by one",
                keywords "group";
            Reads Describe "describe" "describe" TABLES, has_row, App::describe,
                "Describe the selection in full",
                keywords "details info";
            Reads Copy "copy" "copy" &[Clusters, AllNodes, AllJobs, AllTpus, Table, Nodes, Jobs, Log, Tpus, Slice, JobWorkers, Node, Job, Tpu, Info, Progress, Text], has_row, App::copy,
                "Copy the selection's id, the log's visible lines, or the text of a dialog",
                keywords "yank clipboard";
            Reads CopyOther "copy-list" "" PAGES, always, App::choose_copy,
                "List everything that can be copied from the selection: ids, addresses, commands, errors",
                keywords "yank clipboard";
            Reads Announce "announce" "" &[Plan], always, |app, _| app.announce(),
                "Copy an announcement of the operation for your team";
            Reads Dashboard "dashboard" "dashboard" PAGES, is_up, |app, _| app.at_cluster(Effect::OpenDashboard),
                "Open the cluster's dashboard in the browser",
                keywords "browser web";
            Reads Ports "ports" "" PAGES, has_cluster, App::toggle_ports,
                "Open or close local ports for the cluster's dashboard, GCS and Ray client";
            Reads CopyToken "copy-token" "token" PAGES, has_cluster, |app, _| app.at_cluster(Effect::CopyToken),
                "Copy the cluster's token to the clipboard; it is never shown",
                keywords "auth";
            Reads Ssh "ssh" "ssh" PAGES, may_log_in, App::ssh,
                "Log in over SSH to the selected host, or that of the page (a node, a TPU, a worker, a file, a job's driver); otherwise to the head; log out to return to the console",
                keywords "login terminal";
            Reads Tpus "tpus" "tpus" &[Clusters, AllNodes, AllJobs, AllTpus, Table, Nodes, Jobs, Log, Autoscaler, Slice, JobWorkers, Node, Job, Info, Progress], is_on_google, App::open_tpus,
                "Show the cluster's TPUs in Google Cloud, matched with Ray's nodes";
            Reads Reconnect "reconnect" "reconnect" PAGES, is_down, |app, _| app.at_cluster(|name| Effect::Ask(name, Request::Reconnect)),
                "Reconnect now";
            Changes HostKey "host-key" "host key" PAGES, has_new_host_key, App::host_key,
                "Review a changed host key";
            Ends Restart "restart-cluster" "restart" PAGES, may_operate, |app, now| app.plan(Task::Restart { preserve: true }, now),
                "Restart the cluster and restore its jobs (shows affected jobs first)",
                keywords "reboot";
            Changes Start "start-cluster" "" PAGES, has_cluster, App::start_cluster,
                "Start the cluster";
            Ends StopCluster "stop-cluster" "" PAGES, may_operate, |app, now| app.plan(Task::Stop, now),
                "Stop the cluster (shows affected jobs first)";
            Changes AddWorker "add-worker" "add worker" PAGES, takes_workers, App::add_worker,
                "Add workers to the cluster outside the autoscaler (opens a form)",
                keywords "scale";
            Changes Submit "submit-job" "submit" &[Clusters, AllNodes, AllJobs, AllTpus, Table, Nodes, Jobs, Autoscaler, Slice, JobWorkers, Job, Info], has_cluster, App::submit_form,
                "Submit a job (opens a form)";
            Changes Resubmit "resubmit-job" "resubmit" &[Jobs, AllJobs, Job], has_submission, App::resubmit_form,
                "Resubmit the selected job (opens a form with its settings)";
            View Zoom "zoom" "zoom" CLUSTER, always, |app, _| app.zoom(),
                "Toggle zoom of the focused pane";
            View NextPane "next-pane" "" &[Nodes, Jobs, Log, Autoscaler, JobWorkers, Ask, Plan, Form], always, |app, _| app.turn_pane(true),
                "Focus the next pane, field or button, or show the next table of the workers";
            View PreviousPane "previous-pane" "" &[Nodes, Jobs, Log, Autoscaler, JobWorkers, Ask, Plan, Form], always, |app, _| app.turn_pane(false),
                "Focus the previous pane, field or button, or show the previous table of the workers";
            View Pane1 "pane-1" "" CLUSTER, always, |app, _| app.focus(Pane::Nodes),
                "Focus the nodes or slices pane";
            View Pane2 "pane-2" "" CLUSTER, always, |app, _| app.focus(Pane::Jobs),
                "Focus the jobs pane";
            View Pane3 "pane-3" "" CLUSTER, always, |app, _| app.focus(Pane::Log),
                "Focus the log pane";
            View Pane4 "pane-4" "" CLUSTER, always, |app, _| app.focus(Pane::Autoscaler),
                "Focus the autoscaler pane";
            View Up "up" "" EVERYWHERE, always, |app, _| app.step(-1),
                "Move up one row";
            View Down "down" "" EVERYWHERE, always, |app, _| app.step(1),
                "Move down one row";
            View HalfUp "half-page-up" "" EVERYWHERE_BUT_FORMS, always, |app, _| app.turn_half_page(-1),
                "Move up half a page";
            View HalfDown "half-page-down" "" EVERYWHERE_BUT_FORMS, always, |app, _| app.turn_half_page(1),
                "Move down half a page";
            View PageUp "page-up" "" EVERYWHERE, always, |app, _| app.turn_page(-1),
                "Move up one page";
            View PageDown "page-down" "" EVERYWHERE, always, |app, _| app.turn_page(1),
                "Move down one page";
            View Top "top" "" EVERYWHERE_BUT_FORMS, always, |app, _| app.jump(false),
                "Go to the first row";
            View Bottom "bottom" "" EVERYWHERE_BUT_FORMS, always, |app, _| app.jump(true),
                "Go to the last row; in a log, also resume following";
            View Wide "wide" "" TABLES, always, App::toggle_wide,
                "Show all columns, or only the default ones";
            View Columns "columns" "" TABLES, always, |app, _| app.choose_columns(),
                "Choose the columns of the table and their order",
                keywords "fields";
            View MoveUp "move-up" "move up" &[Columns], always, |app, _| app.in_chooser(|chooser| chooser.shift(false)),
                "Move the column up (left in the table)";
            View MoveDown "move-down" "move down" &[Columns], always, |app, _| app.in_chooser(|chooser| chooser.shift(true)),
                "Move the column down (right in the table)";
            View Reset "reset" "reset" &[Columns], always, |app, _| app.reset_columns(),
                "Return to the default columns";
            View SortNext "sort-next" "" TABLES, always, |app, _| app.sort(By::Next),
                "Sort by the next column",
                keywords "order";
            View SortPrevious "sort-previous" "" TABLES, always, |app, _| app.sort(By::Previous),
                "Sort by the previous column",
                keywords "order";
            View SortDefault "sort-default" "" TABLES, always, |app, _| app.sort(By::Default),
                "Return to the default order",
                keywords "order unsorted";
            View SortInvert "sort-reverse" "" TABLES, always, |app, _| app.sort(By::Reversed),
                "Reverse sort order",
                keywords "order descending";
            Reads Refresh "refresh" "" PAGES, has_cluster, App::refresh,
                "Refresh the cluster's data now",
                keywords "reload";
            View Freeze "freeze" "" PAGES, always, App::toggle_freeze,
                "Freeze the screen, or return to live data; updates are still received",
                keywords "pause";
            View LastPage "previous-page" "" PAGES, always, |app, _| app.last_page(),
                "Return to the previous page";
            View Clusters "clusters" "fleet" PAGES_BUT_FLEET, has_fleet, |app, _| app.show_fleet(),
                "Show the fleet: all clusters, those with issues first";
            View Messages "messages" "" PAGES, always, |app, _| app.open_details(Target::Messages),
                "Show all messages so far",
                keywords "notifications events toasts";
            Reads Audit "audit" "" PAGES, always, |_, _| vec![Effect::ReadAudit],
                "Show the audit log: what this user changed from this machine",
                keywords "history";
            View Help "help" "help" EVERYWHERE_BUT_FORMS, always, |app, _| app.help(),
                "List the keys and their actions",
                keywords "keys bindings shortcuts";
            Reads Accept "accept" "" &[Ask], always, App::answer,
                "Confirm";
            View Back "back" "" EVERYWHERE, always, App::back,
                "Go back: out of a dialog, a filter, a zoomed pane, the cluster";
            View Quit "quit" "quit" EVERYWHERE, is_at_the_root, App::leave,
                "Close the dialog or page; on the first page, quit";
            View ForceQuit "force-quit" "" EVERYWHERE, always, |_, _| vec![Effect::Quit],
                "Quit immediately";
            View Redraw "redraw" "" EVERYWHERE, always, |_, _| vec![Effect::Redraw],
                "Redraw the screen";
            View Suspend "suspend" "" EVERYWHERE, always, |_, _| vec![Effect::Suspend],
                "Suspend the console; `fg` in the shell resumes it";
        }
    };
}
pub(super) use each_action;

macro_rules! describe_actions {
    ($($impact:ident $action:ident $name:literal $label:literal $contexts:expr, $offered:expr, $run:expr, $help:literal $(, keywords $keywords:literal)?;)*) => {
        /// An action that keys can be bound to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "each is described by its help")]
        pub enum Action {
            $($action,)*
            /// Shows the table of all clusters with this description.
            Table(&'static Description),
        }

        impl Action {
            /// All actions of the table.
            pub const ROWS: &[Self] = &[$(Self::$action),*];

            /// How the action is shown, and where it is available.
            pub const fn describe(self) -> &'static Description {
                match self {
                    $(Self::$action => const { &Description {
                        impact: Impact::$impact, name: $name, label: $label, contexts: $contexts, help: $help,
                        keywords: concat!($($keywords)?),
                    } },)*
                    Self::Table(description) => description,
                }
            }
        }
    };
}

each_action!(describe_actions);

impl Description {
    /// What it does in a few words: the label of the footer, or the beginning of the help.
    pub fn in_brief(&self) -> String {
        if !self.label.is_empty() {
            return self.label.to_owned();
        }
        let end = self.help.find([',', ';', ':', '(']).unwrap_or(self.help.len());
        let mut words = self.help[..end].trim_end().chars();
        words.next().map(|first| first.to_lowercase().chain(words).collect()).unwrap_or_default()
    }

    /// The contexts where it is available, as text: `the jobs pane or all jobs`.
    pub fn contexts_text(&self) -> String {
        let labels = self.context_labels();
        match labels.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            Some((only, _)) => (*only).to_owned(),
            None => String::new(),
        }
    }

    /// The first of these contexts.
    pub fn first_context(&self) -> &'static str {
        self.context_labels().first().copied().unwrap_or_default()
    }

    fn context_labels(&self) -> Vec<&'static str> {
        let has = |all: &[Context]| all.iter().all(|c| self.contexts.contains(c));
        let panes = if has(CLUSTER) { CLUSTER } else { &[] };
        let mut labels = if panes.is_empty() { Vec::new() } else { vec!["a cluster's panes"] };
        for label in self.contexts.iter().filter(|c| !panes.contains(c)).map(|c| c.label()) {
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        labels
    }
}

impl Action {
    /// Whether it can change a cluster; read-only mode refuses it then.
    pub fn changes_a_cluster(self) -> bool {
        self.describe().impact >= Impact::Changes
    }
}
