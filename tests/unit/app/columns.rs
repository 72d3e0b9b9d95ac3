//! Choosing, reordering and saving columns.

use super::*;
use marin_tui::app::pages::{TABLES, tables};
use std::collections::BTreeMap;

/// The ids of the columns that a table shows, from left to right.
fn shown_of(listing: &dyn Listing) -> Vec<&'static str> {
    listing.choices().iter().filter(|column| column.is_shown).map(|column| column.id).collect()
}

fn jobs(app: &App) -> Vec<&'static str> {
    shown_of(&page(app).jobs)
}

/// The titles of the jobs pane as drawn.
fn titles(app: &App) -> Vec<&'static str> {
    page(app).jobs.headers(&app.cell_context(NOW), 60).iter().map(|head| head.title).collect()
}

fn remembered(columns: &[&str], wide: bool) -> [Effect; 1] {
    let columns = columns.iter().map(ToString::to_string).collect();
    [Effect::Remember(Layout::of("jobs", TableLayout { columns, wide }))]
}

const DEFAULT: [&str; 12] = [
    "mark",
    "job",
    "owner",
    "status",
    "activity",
    "chips",
    "loss",
    "time-left",
    "age",
    "ended",
    "entrypoint",
    "message",
];

#[test]
fn columns_are_hidden_moved_and_saved() {
    let mut app = shown();
    assert_eq!(jobs(&app), DEFAULT);
    press(&mut app, "C");
    assert_eq!(app.context(), Context::Columns);
    // The owner is hidden, and the job moves after the status, past the hidden column.
    press(&mut app, "jj kJJ");
    assert_eq!(
        jobs(&app),
        [
            "mark",
            "status",
            "job",
            "activity",
            "chips",
            "loss",
            "time-left",
            "age",
            "ended",
            "entrypoint",
            "message"
        ]
    );
    assert_eq!(
        titles(&app)[..4],
        ["", "STATUS", "JOB", "ACTIVITY"],
        "the table behind is updated immediately"
    );
    let kept = press(&mut app, "<enter>");
    assert_eq!(
        kept,
        remembered(
            &[
                "mark",
                "status",
                "job",
                "activity",
                "chips",
                "loss",
                "time-left",
                "age",
                "ended",
                "entrypoint",
                "message"
            ],
            false
        )
    );
    assert!(app.dialog().is_none());
    press(&mut app, "C");
    let Some(Dialog::Columns(chooser)) = app.dialog() else { panic!("no dialog") };
    let ids: Vec<&str> = chooser.rows.iter().map(|row| row.id).collect();
    assert_eq!(ids[..4], ["mark", "status", "job", "owner"], "a hidden column keeps its position");
}

#[test]
fn esc_restores_the_columns_and_reset_returns_to_the_default_ones() {
    let mut app = shown();
    assert_eq!(press(&mut app, "Cjj K<esc>"), []);
    assert_eq!(jobs(&app), DEFAULT);
    assert_eq!(press(&mut app, "C<enter>"), [], "nothing was changed");
    press(&mut app, "Cjj <enter>");
    assert_eq!(jobs(&app).len(), DEFAULT.len() - 1);
    assert_eq!(press(&mut app, "Cr<enter>"), remembered(&[], false));
    assert_eq!(jobs(&app), DEFAULT);
    press(&mut app, "C");
    paint(&mut app, 120, 40);
    let outside = press(&mut app, " ");
    assert_eq!((outside, jobs(&app).len()), (vec![], DEFAULT.len() - 1));
    point(&mut app, CLICK, 0, 0);
    assert_eq!(jobs(&app), DEFAULT, "a click outside acts like Esc");
}

#[test]
fn the_last_column_cannot_be_hidden() {
    let mut app = shown();
    press(&mut app, "C");
    for _ in DEFAULT {
        press(&mut app, " j");
    }
    assert_eq!(jobs(&app), ["message"]);
    press(&mut app, "<end>kkkkk ");
    assert_eq!(app.note(), "the last column cannot be hidden");
    assert_eq!(jobs(&app), ["message"]);
}

#[test]
fn a_wide_table_shows_every_column_and_is_saved() {
    let mut app = shown();
    press(&mut app, "Cjj <enter>");
    let chosen: Vec<&str> = DEFAULT.into_iter().filter(|id| *id != "owner").collect();
    assert_eq!(press(&mut app, "<^w>"), remembered(&chosen, true));
    assert_eq!(titles(&app)[..3], ["", "JOB", "OWNER"]);
    assert!(app.toasts().shown().is_empty());
    assert_eq!(titles(&app).last(), Some(&"DRIVER"));
    assert_eq!(press(&mut app, "C<esc>"), []);
    assert_eq!(titles(&app).last(), Some(&"DRIVER"), "still wide");
    assert_eq!(press(&mut app, "<^w>"), remembered(&chosen, false));
    assert!(!titles(&app).contains(&"OWNER"));
    // If not even the default columns fit, the key reports why it shows no more.
    let areas = areas(&app, 60, 24);
    app.drawn(areas);
    press(&mut app, "<^w>");
    assert!(said(&app).starts_with("no room for all columns"), "{}", said(&app));
}

/// Widths are measured once per state, not once per key.
#[test]
fn the_width_of_a_column_depends_on_the_data_and_not_on_the_cursor() {
    let mut app = shown();
    let owner = jobs(&app).iter().position(|id| *id == "owner").unwrap();
    let drawn = |app: &mut App| {
        paint(app, 200, 60);
        areas(app, 200, 60).jobs.unwrap()
    };
    let before = drawn(&mut app);
    press(&mut app, "2jj");
    assert_eq!(drawn(&mut app), before);
    let mut state = snapshot();
    let mut all: Vec<Arc<Job>> = state.jobs.to_vec();
    all.push(Arc::new(job("long", JobStatus::Running, "somebody-with-a-name", 60)));
    state.jobs = Arc::new(all);
    send_update(&mut app, CLUSTER, ClusterEvent::Snapshot(Arc::new(state)));
    let after = drawn(&mut app);
    assert!(
        after.texts.widths[owner].0 == 20 && after.headers[owner].1 > before.headers[owner].1,
        "{after:?}"
    );
}

#[test]
fn a_table_is_sorted_by_the_columns_that_are_shown() {
    let mut app = shown();
    press(&mut app, "Cj J<enter>");
    assert!(!jobs(&app).contains(&"job"));
    press(&mut app, ">");
    assert_eq!(page(&app).jobs.sorted_by(), Some("OWNER"), "the first shown column that can be sorted by");
    paint(&mut app, 200, 60);
    let table = areas(&app, 200, 60).jobs.unwrap();
    let status = jobs(&app).iter().position(|id| *id == "status").unwrap();
    point(&mut app, CLICK, table.headers[status].0, table.rows.y - 1);
    assert_eq!(page(&app).jobs.sorted_by(), Some("STATUS"), "a click sorts by the column under it");
}

#[test]
fn a_layout_applies_to_every_table_of_that_name() {
    let choose = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let defaults = BTreeMap::from([("nodes".to_owned(), choose(&["node", "cpu"]))]);
    let gone = TableLayout { columns: choose(&["status", "of-another-version", "job"]), wide: false };
    let mut app = app(&["a", "b"]).arranged(&defaults, &Layout::of("jobs", gone));
    for cluster_index in [0, 1] {
        let page = &app.pages().cluster[cluster_index];
        assert_eq!(
            (shown_of(&page.nodes), shown_of(&page.jobs)),
            (vec!["node", "cpu"], vec!["status", "job"])
        );
    }
    assert!(shown_of(table(&app, &ALL_NODES)).len() > 2, "the table of all nodes has its own name");
    press(&mut app, "<enter>1C<down> <enter>");
    assert_eq!(shown_of(&app.pages().cluster[1].nodes), ["cpu"]);
    assert_eq!(press(&mut app, "Cr<enter>").len(), 1);
    assert_eq!(shown_of(&app.pages().cluster[1].nodes), ["node", "cpu"], "the columns of the settings");
}

#[test]
fn every_table_has_its_own_name_and_unique_columns() {
    let tables: BTreeMap<_, _> = tables().into_iter().collect();
    assert_eq!(
        tables.len(),
        TABLES.len() + 10,
        "tables of all clusters, of a cluster, of slices, and of a job's workers"
    );
    for (name, ids) in &tables {
        let ids: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), tables[name].len(), "{name}");
    }
    assert!(tables["all-jobs"].contains(&"cluster") && !tables["jobs"].contains(&"cluster"));
    assert!(tables["nodes"].contains(&"instance"), "including columns of wide tables");
}
