//! One table of scenarios before an operation, run through both front ends: the console's keys, effects and news, and
//! the command line. Both give the same verdict, asserted on facts: the gate that refused, or the first step's command.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod world;

use marin_tui::app::plan::Spot;
use marin_tui::app::{App, Dialog, Effect, Event, Keymap, Listed};
use marin_tui::config::{self, Entry, Env, Folders, Sources};
use marin_tui::demo::google::PROJECT;
use marin_tui::gcp::{Endpoints, Google, Login, credentials};
use marin_tui::model::{
    ClusterName, Consent, Gate, Operation, OperationKind, OperationNews, Order, Standing, StepName, Task,
    Timestamp,
};
use marin_tui::operation::{Audit, Environment, Facts, Journal, Scope};
use marin_tui::supervisor::{Options, Supervisor};
use marin_tui::token::Places;
use marin_tui::tui::{Multiplexer, Performer, Place};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tokio::sync::mpsc;
use world::{World, until};

const RESTART: Task = Task::Restart { preserve: false };

/// What came of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Its first step was begun: the ray command was asked for its version.
    Began,
    /// This gate refused it, and no step was begun.
    Refused(Gate),
}
use Verdict::{Began, Refused};

/// What a person does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Begins a restart.
    Begin,
    /// Resumes the restart that is shown.
    Resume,
    /// Skips the step at which it failed.
    Skip,
}

/// A scenario, with what is allowed: nothing, or what is asked for (`--others`, the dialog's switches).
struct Scenario {
    name: &'static str,
    set: fn(&mut World) -> Option<Journal>,
    act: Act,
    verdict: Verdict,
    allowed: Verdict,
}

const SCENARIOS: &[Scenario] = &[
    row("nothing in the way", |w| head(w, &[]), Act::Begin, Began, Began),
    row("our own job", |w| head(w, &["me"]), Act::Begin, Began, Began),
    row("somebody else's job", |w| head(w, &["bo"]), Act::Begin, Refused(Gate::OthersJobs), Began),
    row("a job without an owner", |w| head(w, &[""]), Act::Begin, Refused(Gate::OthersJobs), Began),
    row("no answer", |_| None, Act::Begin, Refused(Gate::UnknownJobs), Began),
    row("no answer, unchanged", |w| begun(w, &[]), Act::Resume, Refused(Gate::UnknownJobs), Began),
    row(
        "no answer, changed",
        |w| begun(w, &[StepName::Check, StepName::Look, StepName::Stop]),
        Act::Resume,
        Began,
        Began,
    ),
    row(
        "a job came since",
        |w| {
            head(w, &["bo"]);
            begun(w, &[])
        },
        Act::Resume,
        Refused(Gate::OthersJobs),
        Began,
    ),
    row(
        "another operation was interrupted",
        |w| {
            head(w, &[]);
            Some(journal(w, &Task::Stop, &Scope::default(), &[]))
        },
        Act::Begin,
        Refused(Gate::Interrupted),
        Refused(Gate::Interrupted),
    ),
    row(
        "another program is at work",
        |w| Some(held(w)),
        Act::Begin,
        Refused(Gate::AtWork),
        Refused(Gate::AtWork),
    ),
    row(
        "another program resumed it",
        |w| Some(held(w)),
        Act::Resume,
        Refused(Gate::AtWork),
        Refused(Gate::AtWork),
    ),
    row(
        "the file is another cluster's",
        |w| {
            let other = Scope { file: Some("/elsewhere/a.yaml".into()), ..Scope::default() };
            Some(journal(w, &RESTART, &other, &[]))
        },
        Act::Resume,
        Refused(Gate::OtherFile),
        Refused(Gate::OtherFile),
    ),
    row(
        "an operation of another kind",
        |w| Some(journal(w, &Task::Stop, &Scope::default(), &[])),
        Act::Resume,
        Refused(Gate::OtherKind),
        Refused(Gate::OtherKind),
    ),
    row(
        "what comes next rests on it",
        |w| begun(w, &[StepName::Check, StepName::Look]),
        Act::Skip,
        Refused(Gate::NotSkippable),
        Refused(Gate::NotSkippable),
    ),
    row(
        "a step that may be skipped",
        |w| begun(w, &[StepName::Check, StepName::Look, StepName::Stop]),
        Act::Skip,
        Began,
        Began,
    ),
    row(
        "nothing to resume",
        |w| {
            head(w, &[]);
            None
        },
        Act::Resume,
        Refused(Gate::NothingToResume),
        Refused(Gate::NothingToResume),
    ),
    row(
        "read-only",
        |w| {
            read_only(w);
            head(w, &[])
        },
        Act::Begin,
        Refused(Gate::ReadOnly),
        Refused(Gate::ReadOnly),
    ),
    row(
        "read-only, interrupted",
        |w| {
            read_only(w);
            begun(w, &[StepName::Check, StepName::Look, StepName::Stop])
        },
        Act::Resume,
        Refused(Gate::ReadOnly),
        Refused(Gate::ReadOnly),
    ),
    row(
        "a provider that is not offered",
        |w| {
            let file = format!("cluster_name: marin-a\nprovider: {{type: aws, project_id: {PROJECT}}}\n");
            w.file("infra/a.yaml", &file);
            None
        },
        Act::Begin,
        Refused(Gate::NotOffered),
        Refused(Gate::NotOffered),
    ),
];

const fn row(
    name: &'static str,
    set: fn(&mut World) -> Option<Journal>,
    act: Act,
    verdict: Verdict,
    allowed: Verdict,
) -> Scenario {
    Scenario { name, set, act, verdict, allowed }
}

fn state(world: &World) -> PathBuf {
    world.home.path().join(".local/state/marin-tui")
}

fn cluster() -> ClusterName {
    ClusterName::new("marin-a")
}

/// A head that answers, with a job of each of these owners; `""` stands for a job that names none.
fn head(world: &mut World, owners: &[&str]) -> Option<Journal> {
    world.head_of(|s| s.jobs = 0);
    for (n, owner) in owners.iter().enumerate() {
        let owner = if owner.is_empty() { "x=y".to_owned() } else { format!("owner={owner}") };
        let words = format!("submit-job --no-wait --submission-id job-{n} --metadata {owner} -- true");
        // Who submits is the owner of what names none.
        let out = world.command(&words).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    None
}

/// An operation that was begun and interrupted after these steps.
fn journal(world: &World, task: &Task, scope: &Scope, done: &[StepName]) -> Journal {
    let mut journal = Journal::open(&state(world), &cluster()).unwrap();
    journal.begin(task, scope).unwrap();
    let stopping = done.contains(&StepName::Stop);
    journal.facts(&Facts { stopping, ..Facts::default() }).unwrap();
    for step in done {
        journal.done(*step, "").unwrap();
    }
    journal
}

fn begun(world: &mut World, done: &[StepName]) -> Option<Journal> {
    // Nobody holds it.
    drop(journal(world, &RESTART, &Scope::default(), done));
    None
}

/// The same, and this process is at work on it.
fn held(world: &mut World) -> Journal {
    head(world, &[]);
    journal(world, &RESTART, &Scope::default(), &[])
}

fn read_only(world: &World) {
    let path = world.home.path().join("config.yaml");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["read_only"] = true.into();
    fs::write(path, settings.to_string()).unwrap();
}

/// A world in which an operation comes no further than its first step.
fn world() -> World {
    let world = World::new();
    let place = world.home.path().display();
    world.program("ray", &format!("echo \"$@\" >>{place}/asked\nexit 1\n"));
    world
}

fn has_begun(world: &World) -> bool {
    // The head's address is asked for with other words.
    world.asked().iter().any(|word| word == "--version")
}

fn by_command(scenario: &Scenario, allows: bool) -> Verdict {
    let mut world = world();
    let held = (scenario.set)(&mut world).filter(|_| scenario.name.starts_with("another program"));
    let act = match scenario.act {
        Act::Begin => "--yes",
        Act::Resume => "--resume",
        Act::Skip => "--resume --leave",
    };
    let others = if allows { "--others" } else { "" };
    let mut command = world.command(&format!("restart-cluster --preserve-jobs=0 --json {act} {others}"));
    let out = command.env("USER", "me").output().unwrap();
    drop(held);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{}: {said}", scenario.name);
    let rows: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    if let Some(name) = rows[0]["refused"].as_str() {
        assert!(!has_begun(&world), "{}: {said}", scenario.name);
        Refused(gate(name))
    } else {
        assert!(has_begun(&world), "{}: neither begun nor refused: {said}", scenario.name);
        Began
    }
}

fn gate(name: &str) -> Gate {
    let all = [
        Gate::ReadOnly,
        Gate::NotOffered,
        Gate::RunsAlready,
        Gate::Interrupted,
        Gate::AtWork,
        Gate::NothingToResume,
        Gate::OtherKind,
        Gate::OtherFile,
        Gate::NotSkippable,
        Gate::UnknownJobs,
        Gate::RunsThere,
        Gate::OthersJobs,
        Gate::Marked,
        Gate::NotSeen,
        Gate::NotConfirmed,
        Gate::Journal,
    ];
    *all.iter().find(|g| g.name() == name).unwrap_or_else(|| panic!("no gate {name}"))
}

/// A console without a screen: its state, and what carries its effects out.
struct Console<'a> {
    world: &'a World,
    app: App,
    performer: Performer,
}

impl<'a> Console<'a> {
    fn new(world: &'a World) -> Self {
        let home = world.home.path();
        let env = Env::new(&[("HOME", home.to_str().unwrap()), ("USER", "me")], home);
        let infra = Some(home.join("infra"));
        let sources = Sources { infra, config: Some(home.join("config.yaml")), ..Sources::default() };
        let config = config::load(&sources, &env, Timestamp::now()).unwrap();
        let folders = Folders::new(&env);
        for folder in [&folders.state, &folders.tokens, &folders.run] {
            config::create_private(folder).unwrap();
        }
        let mut options = Options::new(&config.settings, &folders, Places::default());
        let grant: Value = serde_json::from_slice(&fs::read(home.join("adc.json")).unwrap()).unwrap();
        let login = Login::by(move || credentials::user_account::Builder::new(grant.clone()).build());
        options.google = Google::new(Endpoints::all_at(&world.double.url()), login);
        let environment = Environment {
            clusters: config.entries.iter().filter_map(Entry::cluster).cloned().collect(),
            connections: BTreeMap::new(),
            options: options.clone(),
            audit: Audit::new(&folders.state, "me@here"),
            state: folders.state,
            env,
            me: "me".into(),
            read_only: config.settings.read_only,
        };
        // The screen is not told that nothing may be changed: here the service has to refuse it.
        let listed = environment.clusters.iter().cloned().map(Listed::Cluster).collect();
        let mut app = App::new(listed, Keymap::with_changes(&BTreeMap::default()).unwrap());
        let effects = app.start(Some(&cluster()));
        let _runtime = world.runtime.enter();
        let (updates, mut news) = mpsc::channel(64);
        world.runtime.spawn(async move { while news.recv().await.is_some() {} });
        let supervisor = Supervisor::start(environment.clusters.clone(), options, &updates);
        let place = Place { remote: true, multiplexer: Multiplexer::None };
        let mut performer = Performer::new(supervisor, place).operating(environment);
        performer.perform_all(effects);
        Self { world, app, performer }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        let _runtime = self.world.runtime.enter();
        self.performer.perform_all(effects);
    }

    fn press(&mut self, keys: &str) -> Vec<Effect> {
        keys.split(' ').flat_map(|key| self.app.update(Event::Key(pressed(key)), Timestamp::now())).collect()
    }

    /// The next news of the operation that matter, taken in by the screen.
    fn hears<T>(&mut self, wanted: impl Fn(&OperationNews) -> Option<T>) -> T {
        let mut heard = Vec::new();
        loop {
            let next = async { tokio::time::timeout(Duration::from_secs(60), self.performer.done()).await };
            let event = self.world.runtime.block_on(next).unwrap_or_else(|_| panic!("in vain: {heard:#?}"));
            let found = match &event {
                Event::Operation(_, news) => {
                    heard.push(format!("{news:?}"));
                    wanted(news)
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

    /// Carries out what keys or an answer asked for, up to a verdict; what else could be allowed for it to pass.
    fn verdict(&mut self, effects: Vec<Effect>) -> (Verdict, Option<Order>) {
        self.perform(effects);
        self.hears(|news| match news {
            OperationNews::Began(_) => Some((Began, None)),
            OperationNews::Refused(_, refusal) => {
                Some((Refused(refusal.gate), refusal.allow.as_deref().cloned()))
            }
            _ => None,
        })
    }

    /// Restart, by its key and its dialog.
    fn begins(&mut self, allows: bool) -> Verdict {
        let effects = self.press("R");
        assert!(!effects.is_empty(), "the dialog looks what it would affect");
        self.perform(effects);
        let refused = self.hears(|news| match news {
            OperationNews::Previewed(..) => Some(None),
            OperationNews::Refused(_, refusal) => Some(Some(refusal.gate)),
            _ => None,
        });
        if let Some(gate) = refused {
            return Refused(gate);
        }
        loop {
            let Some(Dialog::Plan(plan)) = self.app.dialog() else { panic!("no dialog") };
            match plan.spot {
                Spot::Jobs if plan.preserves() => {
                    let effects = self.press("space");
                    self.perform(effects);
                    self.hears(|news| matches!(news, OperationNews::Previewed(..)).then_some(()));
                    continue;
                }
                Spot::Others if allows && !plan.others => drop(self.press("space")),
                Spot::Blind if allows && !plan.blind => drop(self.press("space")),
                Spot::Name => drop(self.app.update(Event::Paste("marin-a".into()), Timestamp::now())),
                Spot::Go => {
                    let consent = plan.consent();
                    let (operation, preview) = (plan.operation.clone(), plan.preview.clone());
                    let effects = self.press("enter");
                    if effects.is_empty() {
                        return Refused(consent.missing(&operation, &preview).unwrap());
                    }
                    return self.verdict(effects).0;
                }
                _ => {}
            }
            self.press("tab");
        }
    }

    /// Resumes or skips what is shown: a restart that was interrupted.
    fn resumes(&mut self, act: Act, allows: bool) -> Verdict {
        let done = [StepName::Check, StepName::Look, StepName::Stop];
        let shown = Standing {
            operation: Operation::new(RESTART, cluster()),
            since: Timestamp::now(),
            done: done.iter().map(|s| (*s, String::new())).collect(),
            why: "no route".into(),
            saved: None,
            elsewhere: false,
        };
        let news = OperationNews::Standing(Some(shown));
        self.app.update(Event::Operation(cluster(), news), Timestamp::now());
        let effects = self.press(if act == Act::Skip { "f" } else { "r" });
        let meant = Consent { means: Some(OperationKind::Restart), ..Consent::default() };
        let order = if act == Act::Skip { Order::Forward(meant) } else { Order::Resume(meant) };
        assert_eq!(effects, [Effect::Operate(cluster(), order)]);
        let (verdict, allow) = self.verdict(effects);
        match allow {
            // The screen asks, and a yes is the order that was named.
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

fn by_console(scenario: &Scenario, allows: bool) -> Verdict {
    let mut world = world();
    let held = (scenario.set)(&mut world).filter(|_| scenario.name.starts_with("another program"));
    let mut console = Console::new(&world);
    let verdict = match scenario.act {
        Act::Begin => console.begins(allows),
        act => console.resumes(act, allows),
    };
    if verdict == Began {
        until("its first step is begun", || has_begun(&world));
    } else {
        assert!(!has_begun(&world), "{}", scenario.name);
    }
    drop(held);
    verdict
}

#[test]
fn both_front_ends_give_the_same_verdict() {
    let mut wrong = Vec::new();
    for scenario in SCENARIOS {
        for (allows, expected) in [(false, scenario.verdict), (true, scenario.allowed)] {
            let (command, console) = (by_command(scenario, allows), by_console(scenario, allows));
            if (command, console) != (expected, expected) {
                let name = scenario.name;
                wrong.push(format!(
                    "{name} (allowed: {allows}): {expected:?} is right; {command:?} by the command, {console:?} by \
                     the console"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The fact behind a cancel: whether anything is left to be resumed.
fn is_interrupted(world: &World) -> bool {
    Journal::open(&state(world), &cluster()).unwrap().unfinished().is_some()
}

#[test]
fn a_cancel_before_any_change_leaves_nothing_and_after_one_leaves_what_can_be_resumed() {
    for (done, remains) in [(&[][..], false), (&[StepName::Check, StepName::Look, StepName::Stop][..], true)]
    {
        let hangs = |world: &World| {
            let place = world.home.path().display().to_string();
            let script = format!(
                "echo \"$@\" >>{place}/asked\nwhile [ ! -e {place}/go-on ]; do sleep 0.05; done\nexit 1\n"
            );
            world.program("ray", &script);
        };
        let mut by_command = world();
        head(&mut by_command, &[]);
        begun(&mut by_command, done);
        hangs(&by_command);
        let child = by_command.spawn("restart-cluster --preserve-jobs=0 --resume --others");
        until("its first step is begun", || has_begun(&by_command));
        assert!(
            Command::new("kill").args(["-INT", &child.child.id().to_string()]).status().unwrap().success()
        );
        let (code, _, said) = child.ends();
        assert_eq!((code, is_interrupted(&by_command)), (Some(1), remains), "{said}");

        let mut by_console = world();
        head(&mut by_console, &[]);
        begun(&mut by_console, done);
        hangs(&by_console);
        let mut console = Console::new(&by_console);
        assert_eq!(console.resumes(Act::Resume, true), Began);
        until("its first step is begun", || has_begun(&by_console));
        let cancel = vec![Effect::Operate(cluster(), Order::Cancel)];
        console.perform(cancel);
        if remains {
            // It comes too late, and the step fails by itself.
            by_console.file("go-on", "");
        }
        console.hears(|news| matches!(news, OperationNews::Ended(_)).then_some(()));
        drop(console);
        assert_eq!(is_interrupted(&by_console), remains);
    }
}
