//! The workers of a job: overview, folded, by time, first cause.

use super::*;
use crate::workers_reading::reading;
use marin_tui::app::Effect;

/// Presses a key, and answers the page's request.
fn press_and_answer(app: &mut App, key: &str) {
    let requests = press(app, key);
    let requests = requests.into_iter().find_map(|effect| match effect {
        Effect::JobWorkers(cluster, known, part) => Some((cluster, known.job.key.clone(), part)),
        _ => None,
    });
    if let Some((cluster, key, part)) = requests {
        let event = Ok(reading(app, part));
        app.update(Event::JobWorkers(cluster, key, part, Arc::new(event)), NOW);
    }
}

#[test]
fn the_workers_of_a_job() {
    let mut app = shown();
    press(&mut app, "w");
    snap("workers_reading", &mut app);
    press(&mut app, "<esc>");
    press_and_answer(&mut app, "w<^r>");
    snap_at("workers", &mut app, &[(80, 24), (120, 40)]);
    press_and_answer(&mut app, "2");
    press(&mut app, "G");
    snap_at("workers_folded", &mut app, &[(80, 24), (120, 40)]);
    press_and_answer(&mut app, "3");
    snap("workers_by_time", &mut app);
    press_and_answer(&mut app, "4");
    snap_at("workers_cause", &mut app, &[(80, 24), (120, 40)]);
}
