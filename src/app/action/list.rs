//! The list of all actions: those of the table, and one for each table of all clusters.

use crate::app::action::context::{Context, FLEET};
use crate::app::action::table::Action;
use crate::app::pages::{self, TABLES};
use std::sync::LazyLock;

/// All actions, in the order of the footer and the help. Tables of all clusters come before the actions on the cluster
/// under the cursor.
pub fn actions() -> &'static [Action] {
    static ALL: LazyLock<Vec<Action>> = LazyLock::new(|| {
        let (fleet, cluster) = Action::ROWS.split_at(
            Action::ROWS.iter().position(|a| *a == Action::Dashboard).unwrap_or(Action::ROWS.len()),
        );
        let tables = TABLES.iter().map(|page| page.action());
        fleet.iter().copied().chain(tables).chain(cluster.iter().copied()).collect()
    });
    &ALL
}

/// The action with this name in the keymap; `None` if there is no such action.
pub fn action_named(name: &str) -> Option<Action> {
    actions().iter().copied().find(|action| action.describe().name == name)
}

/// The label of an action that the footer shows in that context; empty: none.
pub fn label_in(action: Action, context: Context) -> &'static str {
    let description = action.describe();
    let is_of_one_kind = || pages::table(description.name).is_some_and(|page| page.context != Context::Table);
    match (action, context) {
        (Action::Filter, Context::Log) => "search",
        // On other pages the footer shows only what concerns the page.
        (Action::Table(_), _) if is_of_one_kind() && !FLEET.contains(&context) => "",
        _ => description.label,
    }
}

#[cfg(test)]
mod tests {
    use crate::app::action::list::*;
    use std::collections::BTreeSet;

    #[test]
    fn actions_have_distinct_names() {
        let names: BTreeSet<&str> = actions().iter().map(|action| action.describe().name).collect();
        assert_eq!(names.len(), actions().len());
        assert!(names.iter().all(|name| action_named(name).is_some_and(|a| a.describe().name == *name)));
        let is_told = |action: &Action| {
            let description = action.describe();
            !description.help.is_empty() && !description.contexts.is_empty()
        };
        assert!(actions().iter().all(is_told));
    }
}
