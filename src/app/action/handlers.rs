//! What each action of the table does, and whether it has an effect now.

use crate::app::action::availability::{
    always, has_chips, has_cluster, has_driver, has_fleet, has_job, has_log, has_new_host_key, has_operation,
    has_row, has_submission, has_worker, is_at_the_root, is_down, is_interrupted, is_on_google, is_up,
    may_cancel, may_clean, may_delete, may_log_in, may_open, may_operate, may_skip, may_stop, takes_workers,
};
use crate::app::action::table::{Action, Description, each_action};
use crate::app::action::target::Target;
use crate::app::event::{IntoEffects, Viewer};
use crate::app::log::LogView;
use crate::app::pages;
use crate::app::pages::job_workers::view::WorkersView;
use crate::app::screen::pane::Pane;
use crate::app::table::By;
use crate::app::view::View;
use crate::app::{App, Effect};
use crate::model::{Request, Task, Timestamp};

macro_rules! handle_actions {
    ($($impact:ident $action:ident $name:literal $label:literal $contexts:expr, $offered:expr, $run:expr, $help:literal $(, keywords $keywords:literal)?;)*) => {
        impl App {
            /// Whether an action has an effect now.
            fn has_effect(&self, action: Action) -> bool {
                match action {
                    $(Action::$action => has_effect($offered, self),)*
                    Action::Table(page) => !self.shows_table(page),
                }
            }

            /// Runs an action, whether or not it is refused.
            pub(super) fn run(&mut self, action: Action, now: Timestamp) -> Vec<Effect> {
                match action {
                    $(Action::$action => run($run, self, now),)*
                    Action::Table(page) => self.open_table(page),
                }
            }
        }
    };
}

each_action!(handle_actions);

fn has_effect(is_offered: fn(&App) -> bool, app: &App) -> bool {
    is_offered(app)
}

fn run<R: IntoEffects>(run: fn(&mut App, Timestamp) -> R, app: &mut App, now: Timestamp) -> Vec<Effect> {
    run(app, now).into_effects()
}

impl App {
    /// Whether the footer offers an action: it has an effect now, and is not refused.
    pub fn offers_action(&self, action: Action) -> bool {
        self.has_effect(action) && self.refusal(action).is_none()
    }

    fn shows_table(&self, page: &Description) -> bool {
        pages::table(page.name).is_some_and(|page| *self.view() == View::Table(page))
    }

    fn open_table(&mut self, page: &Description) -> Vec<Effect> {
        pages::table(page.name).map(|page| self.open_page(View::Table(page))).unwrap_or_default()
    }
}
