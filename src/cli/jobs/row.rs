//! A job in a list, and tables of jobs.

use super::super::{columns, output};
use crate::model::{ClusterName, Job};
use crate::state::ClusterState;

/// A job with its cluster.
#[derive(Clone, Copy, Debug)]
pub struct JobRow<'a> {
    /// The name of the cluster.
    pub cluster: &'a ClusterName,
    /// The state of the cluster.
    pub state: &'a ClusterState,
    /// The job.
    pub job: &'a Job,
}

/// Prints the cells of jobs under their titles, after the name of the cluster if there are several.
pub fn print_rows(
    rows: &[JobRow<'_>],
    is_several: bool,
    titles: &[&str],
    cells: impl Fn(&JobRow<'_>) -> Vec<String>,
) -> anyhow::Result<()> {
    let header: Vec<&str> =
        is_several.then_some("CLUSTER").into_iter().chain(titles.iter().copied()).collect();
    let line = |row: &JobRow<'_>| {
        let cluster = is_several.then(|| row.cluster.to_string());
        cluster.into_iter().chain(cells(row)).collect::<Vec<String>>()
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    columns::print(&mut output::stdout(), &header, &lines)?;
    Ok(())
}
