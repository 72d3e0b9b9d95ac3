//! Fixes as the console shows them: each with the key that is bound to its action, and with the context where that key
//! works if it does not work here.

use crate::app::action::context::{self, Context, PAGES};
use crate::app::action::keymap::Keymap;
use crate::app::action::table::Action;
use crate::model::{Fix, Hint, Verb};

/// What the text of a hint depends on.
#[derive(Clone, Copy, Debug)]
pub struct HintContext<'a> {
    /// The keymap in effect.
    pub keymap: &'a Keymap,
    /// Whether changes to a cluster are refused.
    pub read_only: bool,
    /// The context of the page, also under a dialog.
    pub page: Context,
}

/// How a verb is reached in the console.
struct ActionRoute {
    action: Action,
    /// Where the action does what the verb means; empty for all of the action's contexts.
    within: &'static [Context],
    /// The action that opens that context from other pages, if any.
    lead: Option<Action>,
    /// The label of that context, which follows `in`; empty for an action of every page.
    context: &'static str,
    /// Whether the thing has to be selected, except on its own page.
    on_row: bool,
    /// Text that follows the key; may be empty.
    with: &'static str,
}

impl ActionRoute {
    const fn new(action: Action) -> Self {
        Self { action, within: &[], lead: None, context: "", on_row: false, with: "" }
    }

    const fn within(self, within: &'static [Context], context: &'static str) -> Self {
        Self { within, context, ..self }
    }

    const fn after(self, lead: Action) -> Self {
        Self { lead: Some(lead), ..self }
    }

    /// The action works on the row of a worker.
    const fn on_row(self) -> Self {
        let row = Self { on_row: true, ..self };
        row.within(&[], "the nodes or slices pane or the TPU page").after(Action::Pane1)
    }

    const fn with(self, with: &'static str) -> Self {
        Self { with, ..self }
    }

    /// The login to a host.
    const fn to_host() -> Self {
        let way = Self::new(Action::Ssh).on_row();
        let within = &[Context::Nodes, Context::AllNodes, Context::Tpus, Context::Slice, Context::Node];
        Self { within, ..way }
    }

    /// How each verb is reached in the console.
    const fn to(verb: Verb) -> Self {
        use Action as A;
        const AUTOSCALER: &[Context] = &[Context::Autoscaler];
        const PROGRESS: &[Context] = &[Context::Progress];
        // A table of all clusters has it on the rows of issues.
        const JOBS: &[Context] = &[Context::Jobs, Context::AllJobs, Context::Table];
        const OF_HEAD: &[Context] =
            &[Context::Clusters, Context::AllJobs, Context::Jobs, Context::Autoscaler, Context::Progress];
        const OF_JOB: &[Context] = &[Context::Jobs, Context::AllJobs, Context::Table, Context::Job];
        match verb {
            Verb::MonitorLog => {
                Self::new(A::Log).within(AUTOSCALER, "the cluster's autoscaler pane").after(A::Pane4)
            }
            Verb::MonitorOut => Self::to(Verb::MonitorLog).with("until it shows monitor.out"),
            Verb::Nodes => Self::new(A::Pane1).within(&[], "the cluster's panes"),
            Verb::Tpus => Self::new(A::Tpus).within(&[], "the cluster's panes"),
            // The login to the head. On other pages, the key logs in to the host that is selected there.
            Verb::Ssh => Self::new(A::Ssh).within(OF_HEAD, "the jobs pane"),
            Verb::Reconnect => Self::new(A::Reconnect),
            Verb::HostKey => Self::new(A::HostKey),
            Verb::Start => Self::new(A::Start),
            Verb::Stop => Self::new(A::StopCluster),
            Verb::Restart => Self::new(A::Restart),
            Verb::RestartWithoutJobs => Self::new(A::Restart).with("with \"save the jobs\" off"),
            Verb::AddWorker => Self::new(A::AddWorker),
            Verb::InitWorker => Self::new(A::InitWorker).on_row(),
            Verb::RemoveWorker => Self::new(A::RemoveWorker).on_row(),
            Verb::RemoveNow => Self::new(A::RemoveWorker).on_row().with("with \"drain first\" off"),
            Verb::CleanPreempted => Self::new(A::CleanPreempted).within(&[], "the TPU page").after(A::Tpus),
            Verb::Resume => Self::new(A::Resume).within(PROGRESS, "the operation page").after(A::Progress),
            Verb::SkipStep => {
                Self::new(A::SkipStep).within(PROGRESS, "the operation page").after(A::Progress)
            }
            Verb::Abandon => Self::new(A::Abandon).within(PROGRESS, "the operation page").after(A::Progress),
            Verb::JobStacks => Self { on_row: true, ..Self::new(A::Stacks) }.within(&[], "the jobs pane"),
            Verb::JobLog => Self { on_row: true, ..Self::new(A::Log) }.within(OF_JOB, "the jobs pane"),
            Verb::ExplainJob => Self { on_row: true, ..Self::new(A::Describe) }.within(JOBS, "the jobs pane"),
            Verb::TakeOver | Verb::Drain | Verb::EndWork | Verb::AllowOthers | Verb::AllowUnknown => {
                Self::new(A::Mark)
                    .within(&[Context::Plan], "the confirmation of an operation")
                    .with("on its option")
            }
        }
    }
}

impl ActionRoute {
    fn works_in(&self, context: Context) -> bool {
        let within = if self.within.is_empty() { self.action.describe().contexts } else { self.within };
        within.contains(&context)
    }
}

impl HintContext<'_> {
    /// The hint as it is shown in this context: on a page, or in a dialog over it. A message has no context because it
    /// stays while pages change.
    pub fn hint(&self, hint: &Hint, here: Option<Context>) -> String {
        let fix = |fix: &Fix| match fix {
            Fix::Text(text) => text.clone(),
            Fix::Command { purpose, line } if purpose.is_empty() => format!("run `{line}`"),
            Fix::Command { purpose, line } => format!("{purpose}: `{line}`"),
            Fix::Action { purpose, verb, of } => match self.way_to(*verb, of, here) {
                Some(way) => format!("{purpose}: {way}"),
                None => purpose.clone(),
            },
        };
        join_fixes(&hint.fixes().iter().map(fix).collect::<Vec<_>>())
    }

    /// The keys that lead to a verb for this object; `None` in read-only mode if it changes a cluster.
    fn way_to(&self, verb: Verb, of: &str, here: Option<Context>) -> Option<String> {
        let way = match verb {
            Verb::Ssh if !of.is_empty() => ActionRoute::to_host(),
            _ => ActionRoute::to(verb),
        };
        if self.read_only && way.action.changes_a_cluster() {
            return None;
        }
        let key = self.pressed(&way, "", here);
        let there = || self.pressed(&way, way.context, here);
        let Some(here) = here else { return Some(there()) };
        if way.works_in(here) {
            return Some(key);
        }
        let lead = way.lead.filter(|lead| lead.describe().contexts.contains(&self.page));
        let keys = match lead {
            _ if way.works_in(self.page) => key,
            Some(lead) => format!("{}, then {key}", self.key_or_name(lead)),
            None => return Some(there()),
        };
        Some(if PAGES.contains(&here) { keys } else { format!("{keys} after closing this dialog") })
    }

    /// The key of a route, the place (empty if it is here), and the text that follows: `l on its row in the jobs pane`,
    /// `D on its row, with "drain first" off`.
    fn pressed(&self, way: &ActionRoute, place: &str, here: Option<Context>) -> String {
        let is_its_own = here.is_some_and(|here| match here {
            Context::Node | Context::Tpu | Context::Job => true,
            // Its rows are workers: what works here on its job works on all of them.
            Context::JobWorkers => place.is_empty(),
            _ => false,
        });
        let row = if way.on_row && !is_its_own { " on its row" } else { "" };
        let place = if place.is_empty() { String::new() } else { format!(" {}", context::place(place)) };
        let gap = match (row, &*place, way.with) {
            (_, _, "") => "",
            ("", "", _) => " ",
            _ => ", ",
        };
        format!("{}{row}{place}{gap}{}", self.key_or_name(way.action), way.with)
    }

    /// The first key of an action; for an action without a key, its name in the palette.
    fn key_or_name(&self, action: Action) -> String {
        let key = |action| self.keymap.keys_of(action).next();
        key(action).unwrap_or_else(|| {
            format!("{}{}", key(Action::Palette).unwrap_or_default(), action.describe().name)
        })
    }
}

/// Joins fixes into a sentence: a context that they all share is named once, at the end.
fn join_fixes(fixes: &[String]) -> String {
    const ROW: &str = " on its row in ";
    let context = |fix: &'_ String| fix.rfind(ROW).map(|at| fix[at..].to_owned());
    let first = fixes.first().and_then(context);
    match first.filter(|first| fixes.len() > 1 && fixes.iter().all(|fix| fix.ends_with(first))) {
        Some(context) => {
            let fixes = fixes.iter().map(|fix| fix.strip_suffix(&context).unwrap_or(fix));
            format!("{}; each{context}", fixes.collect::<Vec<_>>().join("; "))
        }
        None => fixes.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use crate::app::action::fixes::*;

    #[test]
    fn every_verb_has_an_action_that_works_somewhere() {
        for verb in Verb::ALL {
            let way = ActionRoute::to(*verb);
            let contexts = way.action.describe().contexts;
            assert!(
                way.within.iter().all(|c| contexts.contains(c)),
                "{verb:?} works only where its action is available"
            );
            let everywhere = PAGES.iter().all(|page| way.works_in(*page));
            assert_eq!(
                way.context.is_empty(),
                everywhere,
                "{verb:?} names its context unless it works on every page"
            );
        }
    }
}
