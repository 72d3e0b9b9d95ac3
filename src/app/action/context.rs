//! The context of a key press.

/// The context of a key press: derived from what is on the screen, never stored separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Context {
    /// The table of the fleet.
    Clusters,
    /// The nodes of all clusters.
    AllNodes,
    /// The jobs of all clusters.
    AllJobs,
    /// The TPUs of all clusters.
    AllTpus,
    /// Another table of all clusters.
    Table,
    /// The pane of a cluster that shows its nodes, by slice or one by one.
    Nodes,
    /// The jobs pane of a cluster.
    Jobs,
    /// A cluster's log pane.
    Log,
    /// A cluster's autoscaler pane.
    Autoscaler,
    /// The view of a cluster's TPUs.
    Tpus,
    /// The hosts of a slice.
    Slice,
    /// The workers of a job.
    JobWorkers,
    /// The details page of a node.
    Node,
    /// The details page of a job.
    Job,
    /// The details page of a TPU.
    Tpu,
    /// The details page of a cluster, of chips, of the hosts of a slice, of a file that could not be read, or of the
    /// messages.
    Info,
    /// The progress of an operation.
    Progress,
    /// A dialog that asks for confirmation.
    Ask,
    /// A dialog that only shows text.
    Text,
    /// The confirmation of an operation.
    Plan,
    /// The form that submits a job or adds workers.
    Form,
    /// The dialog in which columns are chosen.
    Columns,
}

impl Context {
    /// Whether the context shows what an operation or a question is about before it starts or continues: only such
    /// contexts let effects through that change a cluster.
    pub const fn confirms(self) -> bool {
        matches!(self, Self::Ask | Self::Plan | Self::Progress | Self::Form)
    }

    /// The context in words: `the jobs pane`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Clusters => "the fleet",
            Self::AllNodes => "all nodes",
            Self::AllJobs => "all jobs",
            Self::AllTpus => "all TPUs",
            Self::Table => "a table of all clusters",
            Self::Nodes => "the nodes or slices pane",
            Self::Jobs => "the jobs pane",
            Self::Log => "the log pane",
            Self::Autoscaler => "the autoscaler pane",
            Self::Tpus => "the TPU page",
            Self::Slice => "a slice's page",
            Self::JobWorkers => "a job's workers page",
            Self::Node => "a node's page",
            Self::Job => "a job's page",
            Self::Tpu => "a TPU's page",
            Self::Info => "a details page",
            Self::Ask | Self::Text | Self::Plan | Self::Form | Self::Columns => "dialogs",
            Self::Progress => "the operation page",
        }
    }
}

/// Contexts in words, as a place: `in the jobs pane`, `in the nodes or slices pane or on the TPU page`.
pub fn place(contexts: &str) -> String {
    let preposition = |contexts: &str| {
        let is_page = contexts.split(", ").next().is_some_and(|first| first.ends_with("page"));
        if is_page { "on" } else { "in" }
    };
    let mut before = "";
    let parts = contexts.split(" or ").map(|part| match preposition(part) {
        same if same == before => part.to_owned(),
        other => {
            before = other;
            format!("{other} {part}")
        }
    });
    parts.collect::<Vec<_>>().join(" or ")
}

/// All contexts: the pages with the log pane last, then the dialogs with forms last.
pub const EVERYWHERE: &[Context] = &[
    Context::Clusters,
    Context::AllNodes,
    Context::AllJobs,
    Context::AllTpus,
    Context::Table,
    Context::Nodes,
    Context::Jobs,
    Context::Autoscaler,
    Context::Tpus,
    Context::Slice,
    Context::JobWorkers,
    Context::Node,
    Context::Job,
    Context::Tpu,
    Context::Info,
    Context::Progress,
    Context::Log,
    Context::Ask,
    Context::Text,
    Context::Plan,
    Context::Columns,
    Context::Form,
];

/// The number of contexts that are dialogs.
const DIALOGS: usize = 5;

/// The contexts of pages; the others are dialogs. The log is the last one.
pub const PAGES: &[Context] = EVERYWHERE.split_at(EVERYWHERE.len() - DIALOGS).0;

/// The contexts of tables of all clusters.
pub const FLEET: &[Context] = PAGES.split_at(5).0;

/// All pages except that of the fleet.
pub const PAGES_BUT_FLEET: &[Context] = PAGES.split_at(1).1;

/// All pages except the log pane, where some keys have the meaning that they have in `lnav` and `k9s`.
pub const PAGES_BUT_LOGS: &[Context] = PAGES.split_at(PAGES.len() - 1).0;

/// All contexts except forms, where letters and editing keys belong to the focused line.
pub const EVERYWHERE_BUT_FORMS: &[Context] = EVERYWHERE.split_at(EVERYWHERE.len() - 1).0;

#[cfg(test)]
mod tests {
    use crate::app::action::context::*;

    #[test]
    fn places_have_their_prepositions() {
        assert_eq!(place("the jobs pane, all jobs or dialogs"), "in the jobs pane, all jobs or dialogs");
        let rows = "the nodes or slices pane or the TPU page";
        assert_eq!(place(rows), "in the nodes or slices pane or on the TPU page");
        assert_eq!(place("a job's page"), "on a job's page");
    }

    #[test]
    fn the_lists_of_contexts_are_cut_in_the_right_places() {
        let is_dialog = |context: &Context| context.label() == "dialogs";
        let (dialogs, pages): (Vec<Context>, Vec<Context>) = EVERYWHERE.iter().partition(|c| is_dialog(c));
        assert_eq!((PAGES.to_vec(), dialogs.len()), (pages, DIALOGS));
        assert_eq!((FLEET.first(), FLEET.last()), (Some(&Context::Clusters), Some(&Context::Table)));
        assert!(!PAGES_BUT_FLEET.contains(&Context::Clusters) && !PAGES_BUT_LOGS.contains(&Context::Log));
        assert!(!EVERYWHERE_BUT_FORMS.contains(&Context::Form));
    }
}
