//! The form that adds workers: type, number and name, or the address of a host.

use crate::app::input::line::{Edit, Line, is_typed};
use crate::app::screen::scroll::Scroll;
use crate::model::natural::natural;
use crate::model::sort;
use crate::model::{
    ClusterName, HostName, MOST_WORKERS, NewWorker, Problem, Task, Timestamp, WorkerOffer, is_worker_name,
    worker_names,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The setting in a row of the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerField {
    /// The node type, chosen from the offered ones.
    Type,
    /// The kind of capacity, chosen from the offered ones.
    Capacity,
    /// The number of workers.
    Count,
    /// The name of the workers.
    Name,
    /// The address of an existing host.
    Address,
}

impl WorkerField {
    /// The label of the field.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Capacity => "capacity",
            Self::Count => "count",
            Self::Name => "name",
            Self::Address => "address",
        }
    }
}

/// The workers that can be added, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The offer is being read.
    Pending,
    /// The workers that can be added.
    Known(WorkerOffer),
    /// The offer could not be read, for this reason.
    Failed(Problem),
}

/// The form that adds workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerForm {
    /// Where workers are added.
    pub cluster: ClusterName,
    /// What can be added.
    pub offered: Offered,
    /// Index of the type among the offered ones.
    pub node_type: usize,
    /// Index of the capacity among the offered ones.
    pub capacity: usize,
    /// The number of workers, as typed.
    pub count: Line,
    /// The name, as typed.
    pub name: Line,
    /// The host's address, as typed.
    pub address: Line,
    /// The focused row; after the rows come Cancel and Next.
    pub at: usize,
    /// The lines that are shown if there are no rows.
    pub scroll: Scroll,
    /// Whether Next was pressed: from then on an empty field is an error, too.
    pub tried: bool,
    /// The typed text for which Esc warned that it would be lost.
    warned: Option<[String; 3]>,
    /// Whether the number is still the preset one, which the first digit replaces.
    is_given: bool,
}

impl WorkerForm {
    /// The form before the offer is known.
    pub fn new(cluster: ClusterName) -> Self {
        Self {
            cluster,
            offered: Offered::Pending,
            node_type: 0,
            capacity: 0,
            count: Line::new("1"),
            name: Line::default(),
            address: Line::default(),
            at: 0,
            scroll: Scroll::default(),
            tried: false,
            warned: None,
            is_given: true,
        }
    }

    /// Stores the offer and preselects what was added last. Number and address are never preselected: workers cost.
    pub fn take(&mut self, offer: Result<WorkerOffer, Problem>) {
        self.at = 0;
        self.offered = match offer {
            Ok(mut offer) => {
                // The smallest type comes first: it limits the cost of a mistake.
                sort::by(&mut offer.types, |a, b| {
                    natural(&a.accelerator, &b.accelerator).then_with(|| natural(&a.name, &b.name))
                });
                if let Some(NewWorker::Queued { node_type, capacity, .. }) = &offer.last {
                    let is_type = |t: &crate::model::WorkerType| {
                        t.name == *node_type || (t.accelerator == *node_type && !t.accelerator.is_empty())
                    };
                    self.node_type = offer.types.iter().position(is_type).unwrap_or(0);
                    self.capacity = offer.capacities.iter().position(|c| c == capacity).unwrap_or(0);
                }
                Offered::Known(offer)
            }
            Err(problem) => Offered::Failed(problem),
        };
    }

    fn offer(&self) -> Option<&WorkerOffer> {
        match &self.offered {
            Offered::Known(offer) => Some(offer),
            _ => None,
        }
    }

    /// The rows of the form; empty before the offer is known.
    pub fn rows(&self) -> &'static [WorkerField] {
        use WorkerField::{Address, Capacity, Count, Name, Type};
        match self.offer() {
            None => &[],
            Some(offer) if offer.types.is_empty() => &[Address],
            Some(_) => &[Type, Capacity, Count, Name],
        }
    }

    /// The row that has the focus.
    pub fn focused(&self) -> Option<WorkerField> {
        self.rows().get(self.at).copied()
    }

    /// The focused button: `false` for Cancel, `true` for Next; before the offer is known there is only Cancel.
    pub fn button(&self) -> Option<bool> {
        self.at.checked_sub(self.rows().len()).map(|button| button > 0 && self.offer().is_some())
    }

    /// Whether Esc must be pressed again because typed text would be lost; the form then says so.
    pub fn warn_before_discarding(&mut self) -> bool {
        let now = self.texts();
        if now == ["1", "", ""] || self.warned.as_ref() == Some(&now) {
            return false;
        }
        self.warned = Some(now);
        true
    }

    /// Whether the form warns that Esc would discard typed text.
    pub fn is_warning(&self) -> bool {
        self.warned.as_ref() == Some(&self.texts())
    }

    /// The typed texts.
    fn texts(&self) -> [String; 3] {
        [&self.count, &self.name, &self.address].map(|line| line.text().to_owned())
    }

    /// Moves the focus by `by` positions and wraps around.
    pub fn turn(&mut self, by: isize) {
        let positions = if self.offer().is_some() { self.rows().len() + 2 } else { 1 };
        let positions = isize::try_from(positions).unwrap_or(isize::MAX);
        let at = isize::try_from(self.at).unwrap_or(0);
        self.focus(usize::try_from((at + by).rem_euclid(positions)).unwrap_or(0));
    }

    /// Focuses a row or a button.
    pub fn focus(&mut self, at: usize) {
        self.warned = None;
        self.at = at;
    }

    /// Enter in a row: the next row, and from the last one Next.
    pub fn enter(&mut self) {
        let is_last = self.at + 1 == self.rows().len();
        self.turn(if is_last { 2 } else { 1 });
    }

    /// Handles a key in the focused row. Returns false if the key does not belong to it.
    pub(in crate::app) fn take_key(&mut self, key: KeyEvent) -> bool {
        self.sees(key);
        self.line().is_some_and(|line| line.key(key) != Edit::Nothing)
            || self.choose(key)
            // Text typed before the offer is known would be lost, or would act as keys.
            || (self.offered == Offered::Pending && is_typed(key))
    }

    /// Inserts pasted text in the focused row, instead of the preset number. Returns false if no text can be typed
    /// there.
    pub(in crate::app) fn paste(&mut self, text: &str) -> bool {
        if self.focused() == Some(WorkerField::Count) && std::mem::take(&mut self.is_given) {
            self.count.set("");
        }
        let Some(line) = self.line() else { return false };
        line.paste(text);
        true
    }

    /// Handles a key before the focused line does: the first digit replaces the preset number.
    fn sees(&mut self, key: KeyEvent) {
        if self.focused() != Some(WorkerField::Count) || !self.is_given {
            return;
        }
        let is_digit = matches!(key.code, KeyCode::Char(c) if c.is_ascii_digit());
        if is_digit && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            self.count.set("");
        }
        self.is_given &= !matches!(key.code, KeyCode::Char(_) | KeyCode::Backspace);
    }

    /// The choices of a row and the index of the chosen one; `None` for a row with typed text.
    pub fn choices(&self, field: WorkerField) -> Option<(Vec<String>, usize)> {
        let offer = self.offer()?;
        match field {
            WorkerField::Type => {
                let words = |t: &crate::model::WorkerType| match t.accelerator.as_str() {
                    "" => t.name.clone(),
                    tpu => format!("{} ({tpu})", t.name),
                };
                Some((offer.types.iter().map(words).collect(), self.node_type))
            }
            WorkerField::Capacity => Some((offer.capacities.clone(), self.capacity)),
            _ => None,
        }
    }

    /// The TPU of an offered type.
    pub fn tpu_of(&self, node_type: &str) -> Option<&str> {
        let found = self.offer()?.types.iter().find(|t| t.name == node_type)?;
        Some(found.accelerator.as_str()).filter(|tpu| !tpu.is_empty())
    }

    /// The focused line, if text can be typed in the focused row.
    pub fn line(&mut self) -> Option<&mut Line> {
        match self.focused()? {
            WorkerField::Count => Some(&mut self.count),
            WorkerField::Name => Some(&mut self.name),
            WorkerField::Address => Some(&mut self.address),
            WorkerField::Type | WorkerField::Capacity => None,
        }
    }

    /// The typed text of a row; `None` for a row with choices.
    pub fn typed(&self, field: WorkerField) -> Option<&Line> {
        match field {
            WorkerField::Count => Some(&self.count),
            WorkerField::Name => Some(&self.name),
            WorkerField::Address => Some(&self.address),
            WorkerField::Type | WorkerField::Capacity => None,
        }
    }

    /// Handles a key in a row with choices: left and right, and a character, which selects the next choice with a word
    /// that begins with it. Returns false if the key has no effect there. Like editing keys in a line, these keys belong
    /// to the row and not to the keymap, while up and down move between the fields.
    pub fn choose(&mut self, key: KeyEvent) -> bool {
        let Some((choices, at)) = self.focused().and_then(|field| self.choices(field)) else { return false };
        if choices.is_empty() || key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return false;
        }
        let begins = |choice: &String, c: char| {
            let mut words = choice.split(|s: char| !s.is_alphanumeric());
            words.any(|w| w.chars().next().is_some_and(|first| first.eq_ignore_ascii_case(&c)))
        };
        let n = choices.len();
        let next = match key.code {
            KeyCode::Right | KeyCode::Char(' ') => (at + 1) % n,
            KeyCode::Left => (at + n - 1) % n,
            KeyCode::Char(c) => {
                (1..=n).map(|by| (at + by) % n).find(|i| begins(&choices[*i], c)).unwrap_or(at)
            }
            _ => return false,
        };
        match self.focused() {
            Some(WorkerField::Type) => self.node_type = next,
            _ => self.capacity = next,
        }
        true
    }

    fn number(&self) -> Option<usize> {
        self.count.text().trim().parse().ok().filter(|n| (1..=MOST_WORKERS).contains(n))
    }

    /// The error in a row, in words; `None` if it is valid.
    pub fn validation_error(&self, field: WorkerField) -> Option<String> {
        match field {
            WorkerField::Type | WorkerField::Capacity => None,
            WorkerField::Count => {
                self.number().is_none().then(|| format!("enter a number from 1 to {MOST_WORKERS}"))
            }
            WorkerField::Name if self.name.is_empty() || is_worker_name(self.name.text()) => {
                let count = self.number().unwrap_or(1);
                let names = worker_names(self.name.text(), count, Timestamp::from_millis(0));
                let bad = names.iter().find(|n| !is_worker_name(n))?;
                Some(format!("too long with its number: {} characters, at most 63", bad.len()))
            }
            WorkerField::Name if self.name.text().len() > 63 => {
                Some(format!("too long: {} characters, at most 63", self.name.text().len()))
            }
            WorkerField::Name => Some(
                "use lowercase letters, digits and hyphens; start with a letter, end without a hyphen"
                    .to_owned(),
            ),
            WorkerField::Address if self.address.is_empty() => {
                self.tried.then(|| "enter the host's address".to_owned())
            }
            WorkerField::Address => HostName::parse(self.address.text()).err().map(|e| e.why.to_owned()),
        }
    }

    /// The task that the form describes. An invalid row gets the focus instead, and there is no task.
    pub fn task(&mut self, now: Timestamp) -> Option<Task> {
        self.tried = true;
        if let Some(bad) = self.rows().iter().position(|f| self.validation_error(*f).is_some()) {
            self.at = bad;
            return None;
        }
        let offer = self.offer()?;
        let worker = if offer.types.is_empty() {
            NewWorker::Host { address: self.address.text().to_owned() }
        } else {
            NewWorker::Queued {
                node_type: offer.types.get(self.node_type)?.name.clone(),
                capacity: offer.capacities.get(self.capacity).cloned().unwrap_or_default(),
                names: worker_names(self.name.text(), self.number()?, now),
            }
        };
        Some(Task::AddWorker(worker))
    }
}

#[cfg(test)]
mod tests {
    use crate::app::operation::worker_form::*;
    use crate::model::WorkerType;

    fn form() -> WorkerForm {
        let of = |name: &str, tpu: &str| WorkerType { name: name.into(), accelerator: tpu.into() };
        let offer = WorkerOffer {
            types: vec![of("small", "v4-8"), of("large", "v4-128"), of("other", "v5e-16")],
            capacities: ["preemptible", "best-effort", "reserved"].map(String::from).to_vec(),
            last: Some(NewWorker::Queued {
                node_type: "v4-128".into(),
                capacity: "reserved".into(),
                names: vec!["a".into(), "b".into()],
            }),
        };
        let mut form = WorkerForm::new(ClusterName::new("lab"));
        form.take(Ok(offer));
        form
    }

    #[test]
    fn the_last_added_type_is_preselected_and_can_be_changed() {
        let mut form = form();
        assert_eq!((form.node_type, form.capacity, form.count.text()), (1, 2, "1"));
        let key = |code| KeyEvent::from(code);
        assert!(form.choose(key(KeyCode::Right)) && form.node_type == 2);
        assert!(form.choose(key(KeyCode::Right)) && form.node_type == 0);
        assert!(form.choose(key(KeyCode::Left)) && form.node_type == 2);
        assert!(form.choose(key(KeyCode::Char('s'))) && form.node_type == 0);
        assert!(
            form.choose(key(KeyCode::Char('V'))) && form.node_type == 1,
            "a TPU is found by its own name"
        );
        assert!(form.choose(key(KeyCode::Char('q'))) && form.node_type == 1);
        for other in [KeyCode::Tab, KeyCode::Down, KeyCode::Up] {
            assert!(!form.choose(key(other)), "{other:?} moves between the fields");
        }
        let types = ["tpu_slice_v4_1024", "tpu_slice_v4_128", "tpu_slice_v4_16", "tpu_worker"];
        let tpus = ["v4-1024", "v4-128", "v4-16", "v4-8"];
        let of =
            |(name, tpu): (&&str, &&str)| WorkerType { name: (*name).into(), accelerator: (*tpu).into() };
        let types = types.iter().zip(&tpus).map(of).collect();
        let mut sorted = WorkerForm::new(ClusterName::new("lab"));
        sorted.take(Ok(WorkerOffer { types, ..WorkerOffer::default() }));
        assert_eq!(
            sorted.choices(WorkerField::Type).unwrap().0[..2],
            ["tpu_worker (v4-8)", "tpu_slice_v4_16 (v4-16)"]
        );
        form.turn(2);
        assert!(!form.choose(key(KeyCode::Right)), "the row has typed text");
    }

    #[test]
    fn the_first_digit_replaces_the_preset_number() {
        let mut form = form();
        form.turn(2);
        let mut press = |code| {
            let key = KeyEvent::from(code);
            form.sees(key);
            form.line().unwrap().key(key);
            form.count.text().to_owned()
        };
        assert_eq!(["5", "56"], ['5', '6'].map(|c| press(KeyCode::Char(c))).each_ref().map(String::as_str));
        assert_eq!(press(KeyCode::Backspace), "5");
        let mut form = self::form();
        form.turn(2);
        form.sees(KeyEvent::from(KeyCode::Backspace));
        assert_eq!(form.count.text(), "1", "editing keeps the preset number");
        let mut pasted = self::form();
        pasted.turn(2);
        assert!(pasted.paste("1") && pasted.count.text() == "1", "pasted text replaces it, too");
        assert!(pasted.paste("2") && pasted.count.text() == "12");
        form.turn(1);
        form.enter();
        assert_eq!(form.button(), Some(true), "Enter in the last row focuses Next");
    }

    #[test]
    fn errors_are_reported_before_anything_is_sent() {
        let now = Timestamp::from_millis(0xabc);
        for (count, name, error) in [
            ("0", "", Some("1 to 64")),
            ("65", "", Some("1 to 64")),
            ("", "", Some("1 to 64")),
            ("1", "Big", Some("lowercase letters")),
            ("1", "a-", Some("end without a hyphen")),
            ("10", &"a".repeat(62), Some("with its number")),
            ("1", &"a".repeat(64), Some("64 characters")),
            ("64", "mine", None),
            ("1", "", None),
        ] {
            let mut form = form();
            (form.count, form.name) = (count.into(), name.into());
            let task = form.task(now);
            let validation_error = form.focused().and_then(|f| form.validation_error(f));
            match error {
                None => assert!(task.is_some() && validation_error.is_none(), "{count} {name}"),
                Some(words) => {
                    assert!(
                        task.is_none() && validation_error.clone().unwrap().contains(words),
                        "{validation_error:?}"
                    );
                }
            }
        }
        let mut form = form();
        let Some(Task::AddWorker(NewWorker::Queued { names, node_type, capacity })) = form.task(now) else {
            panic!("{form:?}")
        };
        assert_eq!((node_type.as_str(), capacity.as_str()), ("large", "reserved"));
        assert_eq!(names, ["ray-worker-manual-abc"]);
    }

    #[test]
    fn a_host_has_only_an_address() {
        let mut form = WorkerForm::new(ClusterName::new("lab"));
        assert_eq!((form.button(), form.rows().len()), (Some(false), 0));
        form.turn(1);
        assert_eq!(form.button(), Some(false), "there is no Next button");
        form.take(Ok(WorkerOffer::default()));
        assert_eq!(form.validation_error(WorkerField::Address), None, "nothing was typed yet");
        assert!(
            form.task(Timestamp::from_millis(0)).is_none()
                && form.validation_error(WorkerField::Address).is_some()
        );
        form.address = "10.0.0.7".into();
        let task = form.task(Timestamp::from_millis(0));
        assert_eq!(task, Some(Task::AddWorker(NewWorker::Host { address: "10.0.0.7".into() })));
    }
}
