//! The palette: what it offers, and what its commands do.

use super::*;
use marin_tui::app::Offer;

fn words(app: &App) -> Vec<String> {
    app.offers().into_iter().map(|offer| offer.text).collect()
}

fn first(app: &App) -> Offer {
    app.offers().into_iter().next().unwrap()
}

const NAMES: [&str; 3] = ["marin-us-central1", "marin-us-central2", "marin-us-east5"];

#[test]
fn typed_letters_are_matched_and_ranked() {
    let mut app = shown();
    press(&mut app, ":start");
    assert_eq!(words(&app)[..2], ["start-cluster", "restart-cluster"]);
    press(&mut app, "<^u>stj");
    let offer = first(&app);
    assert_eq!((offer.text.as_str(), offer.key.as_str()), ("stop-job", "s"));
    let mut hits = offer.hits.clone();
    hits.sort_unstable();
    assert_eq!(hits.iter().map(|i| &offer.text[*i..=*i]).collect::<String>(), "stj");
    press(&mut app, "<^u>browser");
    assert_eq!(words(&app), ["dashboard"], "by its help");
    press(&mut app, "<^u>zzz");
    assert_eq!(words(&app), [""; 0]);
}

#[test]
fn a_table_is_sorted_by_the_named_column() {
    let mut app = shown();
    let sorted = |app: &App| app.listing().unwrap().sorted_by();
    press(&mut app, "2:sort ow");
    assert_eq!(words(&app), ["sort owner"]);
    press(&mut app, "<enter>");
    assert_eq!(sorted(&app), Some("OWNER"));
    press(&mut app, ":sort nothing<enter>");
    assert!(said(&app).contains("`nothing`"), "{}", said(&app));
    assert_eq!(sorted(&app), Some("OWNER"));
    press(&mut app, "=");
    assert_eq!(sorted(&app), None);
    // Without a column it runs the action of the key.
    press(&mut app, ">:sort<enter>");
    assert_eq!(sorted(&app), None);
}

#[test]
fn an_action_is_found_by_synonyms_from_other_tools() {
    let mut app = super::app(&NAMES);
    for (typed, meant) in [
        ("alert", "issues"),
        ("user", "all-jobs"),
        ("grep", "search-logs"),
        ("sort", "sort"),
        ("KEYS", "help"),
    ] {
        press(&mut app, &format!(":<^u>{typed}"));
        assert_eq!(first(&app).text, meant, "{typed}: {:?}", words(&app));
        press(&mut app, "<esc>");
    }
    let mut app = shown();
    press(&mut app, "3:grep");
    assert_eq!(words(&app)[..2], ["filter-lines", "search-file"], "of the log pane");
}

#[test]
fn the_palette_reports_why_it_offers_nothing() {
    let mut app = super::app(&NAMES);
    let mut why = |typed: &str| {
        press(&mut app, &format!(":<^u>{typed}"));
        let why = app.offer_list().why_none;
        press(&mut app, "<esc>");
        why
    };
    assert_eq!(why("zzz").unwrap(), "no command matches `zzz`; ? lists the keys");
    assert!(why("list-jobs").unwrap().contains("marin-tui list-jobs"));
    assert_eq!(why("cluster zzz").unwrap(), "no cluster matches `zzz`");
    assert_eq!(why("issues zzz").unwrap(), "`issues` takes no argument: `zzz`");
    assert!(why("help zzz").unwrap().contains("no page"));
    assert_eq!((why(""), why("cluster "), why("restart-cluster")), (None, None, None));
}

#[test]
fn the_arrows_choose_and_tab_completes() {
    let mut app = shown();
    press(&mut app, ":sort<down>");
    let chosen = words(&app)[1].clone();
    press(&mut app, "<tab>");
    assert_eq!(app.prompt().unwrap().line.text(), chosen);
    press(&mut app, "<esc>:ref<up><up><down><down><enter>");
    assert!(app.prompt().is_none());
    press(&mut app, ":restart-cluster<tab>");
    assert_eq!(
        app.prompt().unwrap().line.text(),
        "restart-cluster ",
        "a complete command continues with its argument"
    );
    assert_eq!(words(&app), [format!("restart-cluster {CLUSTER}")]);
    press(&mut app, "<esc>:clu<tab>");
    assert!(app.prompt().unwrap().line.text().starts_with("cluster"));
}

#[test]
fn recent_commands_are_offered_first() {
    let mut app = shown();
    press(&mut app, ":refresh<enter>:messages<enter><esc><esc>:");
    assert_eq!(words(&app)[..2], ["messages", "refresh"]);
    assert_eq!(press(&mut app, "<down><down><enter>"), [asks(Request::Refresh)]);
    press(&mut app, ":<^p>");
    assert_eq!(app.prompt().unwrap().line.text(), "refresh");
    press(&mut app, "<esc>");
    assert_eq!(press(&mut app, ":<enter>"), [], "nothing was typed or chosen");
}

#[test]
fn unavailable_actions_are_listed_last_and_report_where_they_are_available() {
    let mut app = shown();
    press(&mut app, "1:");
    let offers = app.offers();
    let away = offers.iter().position(|o| !o.is_here).unwrap();
    assert!(offers[away..].iter().all(|o| !o.is_here));
    assert!(offers[away..].iter().any(|o| o.text == "follow"));
    press(&mut app, "follow<enter>");
    assert!(said(&app).contains("log pane"), "{}", said(&app));
    let mut app = shown().with_read_only(true);
    press(&mut app, ":restart");
    assert!(!first(&app).is_here && first(&app).help.contains("read-only"));
}

#[test]
fn an_action_runs_on_the_named_cluster() {
    let mut app = super::app(&NAMES);
    let effects = press(&mut app, ":restart us-east5<enter>");
    assert!(effects.contains(&asks_focus(NAMES[2])), "{effects:?}");
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(plan.operation.cluster.as_str(), NAMES[2]);
    press(&mut app, "<esc>");
    let effects = press(&mut app, ":ssh central1<enter>");
    assert!(
        effects.contains(&Effect::SshHead(ClusterName::new(NAMES[0]))),
        "the only name that contains it: {effects:?}"
    );
    // An ambiguous name is not resolved unless an entry is chosen.
    assert_eq!(press(&mut app, ":restart us-central<enter>"), []);
    assert!(app.dialog().is_none() && said(&app).contains("`us-central` is ambiguous"), "{}", said(&app));
    press(&mut app, ":restart us-central<down><enter>");
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert!(plan.operation.cluster.as_str().starts_with("marin-us-central"));
    press(&mut app, "<esc>:cluster<enter>");
    assert_eq!(app.prompt().unwrap().line.text(), "cluster ");
    press(&mut app, "<esc>:zoom us-east5<enter>");
    assert!(said(&app).contains("`zoom` takes no argument"), "{}", said(&app));
}

#[test]
fn an_action_runs_on_the_named_job_or_node() {
    let mut app = shown();
    press(&mut app, "4:stop-job <^u>stop-job ");
    let listed = words(&app);
    assert_eq!(
        listed,
        ["eval-tulu-99", JOBS[1], JOBS[3]].map(|id| format!("stop-job {id}")),
        "jobs that can be stopped"
    );
    press(&mut app, "tul<enter>");
    assert_eq!(app.context(), Context::Ask);
    assert_eq!(press(&mut app, "y"), [asks(Request::StopJob(id("eval-tulu-99")))]);
    assert!(matches!(app.view(), View::Details(page) if matches!(&page.target, Target::Job(..))));
    // A mark on another page does not count here.
    press(&mut app, "<esc>2j :stop-job eval-tulu-99<enter>");
    assert_eq!(press(&mut app, "y"), [asks(Request::StopJob(id("eval-tulu-99")))]);
    press(&mut app, "<esc>:logs dclm<enter>");
    assert!(matches!(app.log().unwrap().source(), Some(LogSource::Job(open)) if *open == id("dclm-run-02")));
    assert_eq!(app.view().clone(), View::Log(0));
    press(&mut app, ":remove-worker ");
    assert!(words(&app).iter().all(|words| !words.contains("head")) && !words(&app).is_empty());
    press(&mut app, "<esc>:describe 04000000<enter>");
    assert!(details(&app).iter().any(|(label, text)| label == "id" && text == "04000000"));
    press(&mut app, ":delete-job zzz<enter>");
    assert!(said(&app).contains("`delete-job`: nothing named `zzz`"), "{}", said(&app));
}

#[test]
fn a_choice_stays_on_its_entry_when_events_change_the_list() {
    let mut app = shown();
    press(&mut app, ":stop-job <down><down>");
    let chosen = app.prompt().unwrap().chosen;
    let wanted = app.offers()[chosen].text.clone();
    let new = Arc::new(job("job-new", JobStatus::Running, "alice", 1));
    let mut jobs = snapshot();
    jobs.jobs = Arc::new(std::iter::once(new).chain(jobs.jobs.iter().cloned()).collect());
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(jobs)));
    assert_eq!(app.offers()[app.prompt().unwrap().chosen].text, wanted);
    press(&mut app, "<enter>");
    let stopped = wanted.strip_prefix("stop-job ").unwrap();
    let Some(Dialog::Ask { lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert!(lines.iter().any(|(label, text)| format!("{label} {text}").contains(stopped)), "{lines:?}");
    // Another text is another list.
    press(&mut app, "<esc><esc>:stop-job <down>job-new");
    assert_eq!(words(&app), ["stop-job job-new"]);
}

#[test]
fn a_name_on_several_clusters_is_ambiguous() {
    let mut app = super::app(&["alpha", "beta"]);
    for cluster in ["alpha", "beta"] {
        send_update(&mut app, cluster, ClusterEvent::Link(up()));
        send_update(&mut app, cluster, ClusterEvent::Snapshot(Arc::new(jobs_snapshot(&[1, 2]))));
    }
    // If there is no row to act on, the ids are listed.
    press(&mut app, ":stop-job<enter>");
    assert_eq!(app.prompt().unwrap().line.text(), "stop-job ");
    assert_eq!(words(&app).len(), 4);
    assert_eq!(app.prompt().unwrap().chosen_offer(&app.offers()), None, "Enter chooses none of them");
    assert_eq!(press(&mut app, "job-1<enter>"), []);
    assert!(said(&app).contains("`job-1` is ambiguous: job-1, job-1; select one"), "{}", said(&app));
    press(&mut app, ":stop-job job-1<down>");
    assert_eq!(app.prompt().unwrap().chosen, 0, "the first one: none was chosen before");
    press(&mut app, "<down>");
    assert!(app.offers()[1].help.ends_with(", beta"), "{:?}", app.offers()[1]);
    press(&mut app, "<enter>yy");
    assert_eq!(app.view().cluster_index(), Some(1));
    let mut app = app.with_read_only(true);
    press(&mut app, ":stop-job job-1<enter>");
    assert!(app.dialog().is_none() && said(&app).contains("stop-job refused: read-only"), "{}", said(&app));
}

#[test]
fn a_missing_argument_means_the_selected_cluster() {
    let mut app = super::app(&NAMES);
    press(&mut app, "j:restart <enter>");
    let Some(Dialog::Plan(plan)) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!(plan.operation.cluster.as_str(), NAMES[1], "the selected cluster");
}

#[test]
fn synonyms_from_other_tools_are_accepted() {
    let mut app = super::app(&NAMES);
    press(&mut app, ":jobs<enter>");
    assert_eq!(app.view().clone(), View::Table(&ALL_JOBS));
    press(&mut app, ":nodes<enter>");
    assert_eq!(app.view().clone(), View::Table(&ALL_NODES));
    press(&mut app, ":nodes us-east5<enter>");
    assert_eq!((app.view().clone(), app.pane()), (View::Cluster(2), Pane::Nodes));
    press(&mut app, ":jobs<enter>");
    assert_eq!((app.view().clone(), app.pane()), (View::Cluster(2), Pane::Jobs));
    press(&mut app, ":autoscaler<enter>");
    assert_eq!(app.context(), Context::Autoscaler);
    press(&mut app, ":fleet<enter>:clusters<enter>");
    assert_eq!(app.view().clone(), View::Clusters);
    assert!(app.toasts().shown().is_empty(), "that page is already on the screen");
    press(&mut app, ":ctx us-central2<enter>");
    assert_eq!(app.view().clone(), View::Cluster(1));
    press(&mut app, ":list-jobs<enter>");
    assert!(said(&app).contains("`marin-tui list-jobs`"), "{}", said(&app));
    assert_eq!(press(&mut app, ":exit<enter>"), [Effect::Quit]);
}

#[test]
fn the_audit_log_is_shown_after_it_was_read() {
    let mut app = shown();
    assert_eq!(press(&mut app, ":audit<enter>"), [Effect::ReadAudit]);
    assert!(app.dialog().is_none(), "keys do not wait for the disk");
    let entry = ("2026-11-20 14:05:31".to_owned(), "alpha: stop-job x: stopped  (alice@laptop)".to_owned());
    app.update(Event::Audit(Ok(vec![entry.clone()])), NOW);
    let Some(Dialog::Text { title, lines, .. }) = app.dialog() else { panic!("{:?}", app.dialog()) };
    assert_eq!((title.as_str(), &lines[..]), ("Audit log", &[entry][..]));
    press(&mut app, "<esc>");
    app.update(Event::Audit(Ok(Vec::new())), NOW);
    assert!(app.dialog().is_none() && said(&app).contains("empty"), "{}", said(&app));
}
