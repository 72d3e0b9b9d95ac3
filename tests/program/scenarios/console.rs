//! The console on top of the service: its keys, effects and events, without a screen.

use super::Verdict::{self, Began, Refused};
use super::*;

/// A console without a screen: its state, and the performer of its effects.
pub(super) struct Console<'a> {
    fixture: &'a CloudFixture,
    app: App,
    performer: Performer,
}

impl<'a> Console<'a> {
    pub(super) fn new(fixture: &'a CloudFixture) -> Self {
        let environment = fixture.environment();
        // The app does not know that it is read-only: here the service has to refuse changes.
        let listed = environment.clusters.iter().cloned().map(Listed::Cluster).collect();
        let mut app = App::new(listed, Keymap::with_changes(actions(), &BTreeMap::default()).unwrap());
        let effects = app.start(Some(&cluster()));
        let (updates, mut receiver) = mpsc::channel(64);
        fixture.runtime.spawn(async move { while receiver.recv().await.is_some() {} });
        let mut performer = fixture.performer(environment, &updates);
        let _runtime = fixture.runtime.enter();
        performer.perform_all(effects);
        Self { fixture, app, performer }
    }

    pub(super) fn perform(&mut self, effects: Vec<Effect>) {
        let _runtime = self.fixture.runtime.enter();
        self.performer.perform_all(effects);
    }

    pub(super) fn press(&mut self, keys: &str) -> Vec<Effect> {
        keys.split(' ').flat_map(|key| self.app.update(Event::Key(pressed(key)), Timestamp::now())).collect()
    }

    /// Waits for the next matching event of the operation; the app handles all events.
    pub(super) fn wait_for_event<T>(&mut self, wanted: impl Fn(&OperationEvent) -> Option<T>) -> T {
        let mut heard = Vec::new();
        loop {
            let next = async { tokio::time::timeout(Duration::from_secs(60), self.performer.done()).await };
            let event =
                self.fixture.runtime.block_on(next).unwrap_or_else(|_| panic!("timed out: {heard:#?}"));
            let found = match &event {
                Event::Operation(_, event) => {
                    heard.push(format!("{event:?}"));
                    wanted(event)
                }
                _ => None,
            };
            let effects = self.app.update(event, Timestamp::now());
            self.perform(effects);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Performs the effects of keys up to a verdict; also returns the order that would allow what was refused.
    pub(super) fn verdict(&mut self, effects: Vec<Effect>) -> (Verdict, Option<Order>) {
        self.perform(effects);
        self.wait_for_event(|event| match event {
            OperationEvent::Began(_) => Some((Began, None)),
            OperationEvent::Refused(_, _, refusal) => {
                Some((Refused(refusal.reason), refusal.allow.as_deref().cloned()))
            }
            _ => None,
        })
    }

    /// Starts a restart with its key and its dialog; calls `between` once the preview is shown.
    pub(super) fn begins(&mut self, allows: bool, between: impl FnOnce()) -> Verdict {
        let effects = self.press("R");
        assert!(!effects.is_empty(), "the dialog requests a preview");
        self.perform(effects);
        let refused = self.wait_for_event(|event| match event {
            OperationEvent::Previewed(..) => Some(None),
            OperationEvent::Refused(_, _, refusal) => Some(Some(refusal.reason)),
            _ => None,
        });
        if let Some(reason) = refused {
            return Refused(reason);
        }
        between();
        loop {
            let Some(Dialog::Plan(plan)) = self.app.dialog() else { panic!("no dialog") };
            match plan.control {
                Control::Jobs if plan.preserves() => {
                    let effects = self.press("space");
                    self.perform(effects);
                    self.wait_for_event(|event| matches!(event, OperationEvent::Previewed(..)).then_some(()));
                    continue;
                }
                Control::Others if allows && !plan.others => drop(self.press("space")),
                Control::UnknownJobs if allows && !plan.allow_unknown_jobs => drop(self.press("space")),
                Control::TakeOver if allows && !plan.consent().take_over.covers("00000000aaaaaaaa") => {
                    drop(self.press("space"));
                }
                Control::Name => drop(self.app.update(Event::Paste("marin-a".into()), Timestamp::now())),
                Control::Go => {
                    let consent = plan.consent();
                    let (operation, preview) = (plan.operation.clone(), plan.preview.clone());
                    let is_locked = plan.others_lock.as_ref().is_some_and(|lock| !lock.take_over);
                    let effects = self.press("enter");
                    if effects.is_empty() {
                        return Refused(consent.missing(&operation, &preview).unwrap_or_else(|| {
                            assert!(is_locked, "the dialog does not show why nothing was started");
                            RefusalReason::Locked
                        }));
                    }
                    return self.verdict(effects).0;
                }
                _ => {}
            }
            self.press("tab");
        }
    }

    /// Resumes the interrupted restart that is shown, or skips its failed step.
    pub(super) fn resumes(&mut self, act: Act, allows: bool) -> Verdict {
        let done = [StepName::Check, StepName::ReadState, StepName::Stop];
        let shown = JournaledOperation {
            operation: Operation::new(RESTART, cluster()),
            since: Timestamp::now(),
            done: done.iter().map(|s| (*s, String::new())).collect(),
            why: "no route".into(),
            saved: None,
            elsewhere: false,
        };
        let event = OperationEvent::Journaled(Some(shown));
        self.app.update(Event::Operation(cluster(), event), Timestamp::now());
        let effects = self.press(if act == Act::Skip { "f" } else { "u" });
        let meant = Consent { expected_kind: Some(OperationKind::Restart), ..Consent::default() };
        let order = if act == Act::Skip { Order::SkipStep(meant) } else { Order::Resume(meant) };
        assert_eq!(effects, [Effect::Operate(cluster(), order)]);
        let (verdict, allow) = self.verdict(effects);
        match allow {
            // The app asks for confirmation; a yes sends the order that the refusal named.
            Some(order) if allows => {
                let effects = self.press("y");
                assert_eq!(effects, [Effect::Operate(cluster(), order)]);
                self.verdict(effects).0
            }
            _ => verdict,
        }
    }
}

fn pressed(key: &str) -> crossterm::event::KeyEvent {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    let code = match key {
        "enter" => KeyCode::Enter,
        "tab" => KeyCode::Tab,
        "space" => KeyCode::Char(' '),
        key => KeyCode::Char(key.chars().next().unwrap()),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}
