//! The first word of a command in the palette, and the arguments that it takes.

use crate::app::action::list::{action_named, actions};
use crate::app::action::table::Action;
use crate::app::input::ids::takes_resource_id;
use crate::app::pages::{ALL_JOBS, ALL_NODES};
use crate::app::screen::pane::Pane;

/// The meaning of the first word of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::app) enum Verb {
    /// An action, on the selection or on the named cluster.
    Act(Action),
    /// Opens the named cluster.
    Cluster,
    /// A pane of the cluster; if no cluster is on the screen, the page of all clusters, if there is one.
    Pane(Pane, Option<Action>),
    /// Sorts the table by the named column.
    Sort,
    /// The list of keys, or a page of the manual.
    Help,
}

/// Synonyms besides the names of actions: those that users of k9s, kubectl and Ray type.
pub(in crate::app) const SYNONYMS: &[(&str, Verb)] = &[
    ("cluster", Verb::Cluster),
    ("ctx", Verb::Cluster),
    ("use", Verb::Cluster),
    ("jobs", Verb::Pane(Pane::Jobs, Some(ALL_JOBS.action()))),
    ("nodes", Verb::Pane(Pane::Nodes, Some(ALL_NODES.action()))),
    ("autoscaler", Verb::Pane(Pane::Autoscaler, None)),
    ("logs", Verb::Act(Action::Log)),
    ("fleet", Verb::Act(Action::Clusters)),
    ("contexts", Verb::Act(Action::Clusters)),
    ("shell", Verb::Act(Action::Ssh)),
    ("token", Verb::Act(Action::CopyToken)),
    ("stop", Verb::Act(Action::StopJob)),
    ("delete", Verb::Act(Action::DeleteJob)),
    ("sort", Verb::Sort),
    ("help", Verb::Help),
    ("manual", Verb::Help),
    ("q", Verb::Act(Action::ForceQuit)),
    ("exit", Verb::Act(Action::ForceQuit)),
];

/// Actions on the current or selected cluster that also take a cluster by name.
pub(in crate::app) const ON_CLUSTER: &[Action] = &[
    Action::Restart,
    Action::Start,
    Action::StopCluster,
    Action::AddWorker,
    Action::Submit,
    Action::Progress,
    Action::Tpus,
    Action::Ssh,
    Action::Dashboard,
    Action::Ports,
    Action::CopyToken,
    Action::Refresh,
    Action::Reconnect,
    Action::HostKey,
];

/// The first word of a command, and the text after it, if any.
pub(in crate::app) fn split(text: &str) -> (&str, Option<&str>) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).map_or((text, None), |(verb, rest)| (verb, Some(rest.trim())))
}

impl Verb {
    /// The verb with this name, or the only one with this prefix.
    pub(in crate::app) fn named(name: &str) -> Option<Self> {
        let word = SYNONYMS.iter().find(|(word, _)| *word == name).map(|(_, verb)| *verb);
        word.or_else(|| action_named(name).map(Self::Act)).or_else(|| {
            let words = SYNONYMS.iter().filter(|(word, _)| word.starts_with(name)).map(|(_, verb)| *verb);
            let actions =
                actions().iter().filter(|a| a.describe().name.starts_with(name)).map(|a| Self::Act(*a));
            let mut begin = words.chain(actions);
            let first = begin.next().filter(|_| !name.is_empty())?;
            begin.all(|other| other == first).then_some(first)
        })
    }

    /// The kind of argument that it takes.
    pub(in crate::app) fn argument(self) -> Option<Argument> {
        match self {
            Self::Act(action) if takes_resource_id(action) => Some(Argument::ResourceId(action)),
            Self::Act(action) => ON_CLUSTER.contains(&action).then_some(Argument::Cluster),
            Self::Cluster | Self::Pane(..) => Some(Argument::Cluster),
            Self::Sort => Some(Argument::Column),
            Self::Help => Some(Argument::Page),
        }
    }
}

/// The kind of a command's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::app) enum Argument {
    /// A cluster, by its name or a prefix of it.
    Cluster,
    /// A job, a node or a TPU that this action acts on.
    ResourceId(Action),
    /// A column of the focused table.
    Column,
    /// A page of the manual.
    Page,
}
