//! The form that submits a job, empty or filled with the settings of an earlier submission.

use crate::app::input::history::{Entered, History, Recall};
use crate::app::input::line::{Edit, Line, arrow, is_typed};
use crate::app::screen::scroll::Scroll;
use crate::model::draft::KEPT_VALUE;
use crate::model::{ClusterName, Draft, FormId, SubmissionId};
use crossterm::event::KeyEvent;

/// The setting in a row of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The entrypoint: a shell command.
    Command,
    /// The directory in which it runs.
    WorkingDir,
    /// A variable; there may be several.
    Variable,
    /// The rest of the runtime environment.
    RuntimeEnv,
    /// CPUs of the command itself.
    Cpus,
    /// GPUs of the command itself.
    Gpus,
    /// Memory of the command itself.
    Memory,
    /// Other resources of the command itself.
    Resources,
    /// The labels that the node of the command itself must have.
    LabelSelector,
    /// The TPU slice of the command itself.
    Tpu,
    /// The submission id.
    Id,
    /// A metadata pair; there may be several.
    Metadata,
}

impl Field {
    const ALL: [Self; 12] = [
        Self::Command,
        Self::WorkingDir,
        Self::Variable,
        Self::RuntimeEnv,
        Self::Cpus,
        Self::Gpus,
        Self::Memory,
        Self::Resources,
        Self::LabelSelector,
        Self::Tpu,
        Self::Id,
        Self::Metadata,
    ];

    /// The label of the field.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::WorkingDir => "working dir",
            Self::Variable => "variable",
            Self::RuntimeEnv => "runtime env",
            Self::Cpus => "cpus",
            Self::Gpus => "gpus",
            Self::Memory => "memory",
            Self::Resources => "resources",
            Self::LabelSelector => "label selector",
            Self::Tpu => "tpu",
            Self::Id => "submission id",
            Self::Metadata => "metadata",
        }
    }

    /// A hint on what can be entered.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Command => "a shell command, e.g. python train.py --steps 10",
            Self::WorkingDir => {
                "a local directory or .zip, or a URI; leave empty to run in the cluster's default directory"
            }
            Self::Variable => "NAME=VALUE, or NAME to take the value from this machine; values are hidden",
            Self::RuntimeEnv => "JSON or YAML, or the path of a JSON or YAML file, e.g. {pip: [wandb]}",
            Self::Cpus | Self::Gpus => "for the entrypoint, not for its tasks",
            Self::Memory => "for the entrypoint, e.g. 2 GB",
            Self::Resources => "other resources for the entrypoint, e.g. {\"TPU\": 4}",
            Self::LabelSelector => {
                "labels of the entrypoint's node, e.g. {\"disk\": \"ssd\"}; needs Ray 2.54 or later"
            }
            Self::Tpu => "a whole TPU slice for the entrypoint, e.g. v4-128",
            Self::Id => "leave empty to generate one",
            Self::Metadata => "KEY=VALUE, e.g. owner=alice",
        }
    }

    const fn repeats(self) -> bool {
        matches!(self, Self::Variable | Self::Metadata)
    }
}

/// A row of the form.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// The setting that it holds.
    pub field: Field,
    /// The typed text.
    pub line: Line,
}

/// The text may be a secret.
impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("field", &self.field).finish_non_exhaustive()
    }
}

impl Row {
    /// The row as it is shown; the value of a variable is masked.
    pub fn shown(&self) -> String {
        let text = crate::model::text::printable(self.line.text());
        match text.split_once('=') {
            Some((name, value)) if self.field == Field::Variable && value != KEPT_VALUE => {
                format!("{name}={}", "•".repeat(value.chars().count()))
            }
            _ => text.into_owned(),
        }
    }
}

/// The form that submits a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The id that events of the form carry.
    pub id: FormId,
    /// The cluster that the job is submitted to.
    pub cluster: ClusterName,
    /// The job whose settings fill the form.
    pub like: Option<SubmissionId>,
    /// The rows, in the order of the fields.
    pub rows: Vec<Row>,
    /// The focused row; after the rows come Cancel and Submit.
    pub at: usize,
    /// What is in progress, e.g. `submitting`.
    pub in_progress: Option<String>,
    /// Why the last submission failed; empty if it did not.
    pub problem: String,
    /// The warnings that were shown: a job without further ones is submitted.
    pub(in crate::app) seen: Vec<String>,
    /// The scroll position of the text below the rows.
    pub scroll: Scroll,
    /// The position in the history of earlier entrypoints.
    recall: Recall,
    /// The rows when the form was opened.
    filled: Vec<Row>,
    /// The typed rows for which Esc has warned; a second Esc discards exactly these.
    warned: Vec<Row>,
}

impl Form {
    /// An empty form for that cluster.
    pub fn new(id: FormId, cluster: ClusterName) -> Self {
        let mut form = Self {
            id,
            cluster,
            like: None,
            rows: Vec::new(),
            at: 0,
            in_progress: None,
            problem: String::new(),
            seen: Vec::new(),
            scroll: Scroll::default(),
            recall: Recall::default(),
            filled: Vec::new(),
            warned: Vec::new(),
        };
        form.fill(&Draft::default());
        form
    }

    /// Fills the rows from a draft.
    pub fn fill(&mut self, draft: &Draft) {
        self.like.clone_from(&draft.like);
        let row = |field: Field, text: &str| Row { field, line: Line::new(text) };
        self.rows.clear();
        for field in Field::ALL {
            let one = match field {
                Field::Command => &draft.entrypoint,
                Field::WorkingDir => &draft.working_dir,
                Field::RuntimeEnv => &draft.runtime_env,
                Field::Cpus => &draft.cpus,
                Field::Gpus => &draft.gpus,
                Field::Memory => &draft.memory,
                Field::Resources => &draft.resources,
                Field::LabelSelector => &draft.label_selector,
                Field::Tpu => &draft.tpu,
                Field::Id => &draft.id,
                Field::Variable | Field::Metadata => {
                    let several = if field == Field::Variable { &draft.variables } else { &draft.metadata };
                    self.rows.extend(several.iter().map(|text| row(field, text)));
                    self.rows.push(row(field, ""));
                    continue;
                }
            };
            self.rows.push(row(field, one));
        }
        self.filled.clone_from(&self.rows);
    }

    /// Whether Esc must be pressed again because typed text would be lost; the form then says so.
    pub fn warn_before_discarding(&mut self) -> bool {
        let now = typed(&self.rows);
        if self.in_progress.is_some() || now == typed(&self.filled) || now == self.warned {
            return false;
        }
        self.warned = now;
        self.scroll.reset();
        true
    }

    /// Whether the form warns that Esc would discard typed text.
    pub fn is_warning(&self) -> bool {
        !self.warned.is_empty() && self.warned == typed(&self.rows)
    }

    /// Starts submitting: earlier messages of the form are outdated.
    pub(in crate::app) fn begin(&mut self) {
        self.problem.clear();
        self.warned.clear();
        self.in_progress = Some("submitting".to_owned());
    }

    /// Enter in a row: the next row, and from the last one Submit.
    pub fn enter(&mut self) {
        let is_last = self.at + 1 == self.rows.len();
        self.turn(1);
        if is_last && self.button() == Some(false) {
            self.at += 1;
        }
    }

    /// The draft of the job that the rows describe.
    pub fn draft(&self) -> Draft {
        let mut draft = Draft { like: self.like.clone(), seen: self.seen.clone(), ..Draft::default() };
        for Row { field, line } in &self.rows {
            let text = line.text();
            let one = match field {
                Field::Command => &mut draft.entrypoint,
                Field::WorkingDir => &mut draft.working_dir,
                Field::RuntimeEnv => &mut draft.runtime_env,
                Field::Cpus => &mut draft.cpus,
                Field::Gpus => &mut draft.gpus,
                Field::Memory => &mut draft.memory,
                Field::Resources => &mut draft.resources,
                Field::LabelSelector => &mut draft.label_selector,
                Field::Tpu => &mut draft.tpu,
                Field::Id => &mut draft.id,
                Field::Variable => {
                    draft.variables.push(text.to_owned());
                    continue;
                }
                Field::Metadata => {
                    draft.metadata.push(text.to_owned());
                    continue;
                }
            };
            text.clone_into(one);
        }
        draft
    }

    /// Moves the focus by `by` positions and wraps around.
    pub fn turn(&mut self, by: isize) {
        self.leave_row();
        let positions = isize::try_from(self.rows.len() + 2).unwrap_or(isize::MAX);
        let at = isize::try_from(self.at).unwrap_or(0);
        self.at = usize::try_from((at + by).rem_euclid(positions)).unwrap_or(0);
    }

    /// Focuses a clicked row or button.
    pub fn focus(&mut self, at: usize) {
        if at != self.at {
            let before = self.rows.len();
            let is_below = at > self.at;
            self.leave_row();
            self.at = if is_below { at + (self.rows.len() - before) } else { at };
        }
    }

    /// Leaves the focused row for another one: its messages are outdated, and the next row has its own history. Fields
    /// that repeat have one empty row at their end.
    fn leave_row(&mut self) {
        self.problem.clear();
        self.warned.clear();
        self.recall = Recall::default();
        if let Some(Row { field, line }) = self.rows.get(self.at)
            && field.repeats()
        {
            let (field, is_last) =
                (*field, self.rows.get(self.at + 1).is_none_or(|next| next.field != *field));
            if !line.is_empty() && is_last {
                self.rows.insert(self.at + 1, Row { field, line: Line::default() });
            }
        }
    }

    /// Handles a key in the focused row. Returns false if the key does not belong to it.
    pub(in crate::app) fn take_key(&mut self, key: KeyEvent, history: &History) -> bool {
        // Text typed while the form is busy would be lost, or would act as keys.
        if self.in_progress.is_some() {
            return is_typed(key);
        }
        if self.recalls(key, history) {
            return true;
        }
        let Some(row) = self.rows.get_mut(self.at) else { return false };
        let edit = row.line.key(key);
        if edit == Edit::Changed {
            self.recall = Recall::default();
        }
        edit != Edit::Nothing
    }

    /// An arrow in the entrypoint or the working dir recalls previous submissions. Returns false if there is no such
    /// entry; the arrow then changes the field.
    fn recalls(&mut self, key: KeyEvent, history: &History) -> bool {
        let Some((is_older, row)) = arrow(key).zip(self.rows.get_mut(self.at)) else { return false };
        let kind = match row.field {
            Field::Command => Entered::Entrypoint,
            Field::WorkingDir => Entered::WorkingDir,
            _ => return false,
        };
        history.recall(kind, &mut self.recall, &mut row.line, is_older)
    }

    /// Inserts pasted text in the focused row. Returns false if no row has the focus.
    pub(in crate::app) fn paste(&mut self, text: &str) -> bool {
        let row = self.rows.get_mut(self.at).filter(|_| self.in_progress.is_none());
        let Some(row) = row else { return false };
        row.line.paste(text);
        self.recall = Recall::default();
        true
    }

    /// The focused button: `false` for Cancel, `true` for Submit; `None` if a row has the focus.
    pub fn button(&self) -> Option<bool> {
        self.at.checked_sub(self.rows.len()).map(|button| button == 1)
    }
}

/// The rows with typed text.
fn typed(rows: &[Row]) -> Vec<Row> {
    rows.iter().filter(|row| !row.line.is_empty()).cloned().collect()
}
