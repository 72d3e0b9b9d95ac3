//! The options of the state API's lists `/api/v0/nodes`, `tasks`, `actors` and `placement_groups`: limit, detail,
//! filters.

use super::super::connection::{Body, whole};
use super::super::json::dumps;
use super::failure::in_trouble;
use super::json;
use super::query::Query;
use http::{Response, StatusCode};
use serde_json::{Value, json};

/// `RAY_MAX_LIMIT_FROM_API_SERVER`.
const MAX_ROWS: usize = 10_000;

/// Columns that filters support.
pub(super) struct Columns(&'static [&'static str]);

/// Columns of `/api/v0/nodes`.
pub(super) const NODES: Columns = Columns(&["node_id", "node_name", "node_ip", "state", "is_head_node"]);
/// Columns of `/api/v0/tasks`.
pub(super) const TASKS: Columns = Columns(&[
    "task_id",
    "name",
    "state",
    "job_id",
    "actor_id",
    "type",
    "func_or_class_name",
    "node_id",
    "worker_id",
]);
/// Columns of `/api/v0/actors`.
pub(super) const ACTORS: Columns =
    Columns(&["actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "ray_namespace"]);

/// Columns of `/api/v0/placement_groups`.
pub(super) const GROUPS: Columns =
    Columns(&["placement_group_id", "name", "creator_job_id", "state", "is_detached"]);

/// The response with the rows that match the query, up to its limit.
pub(super) fn answer(
    query: &Query,
    columns: &Columns,
    rows: impl FnOnce(bool) -> Vec<Value>,
) -> Response<Body> {
    let limit = match query.get("limit").map(str::parse::<usize>) {
        None => 100,
        Some(Ok(n)) if n <= MAX_ROWS => n,
        Some(Ok(n)) => {
            return refuse(&format!(
                "Given limit {n} exceeds the supported limit {MAX_ROWS}. Use a lower limit."
            ));
        }
        Some(Err(_)) => {
            let given = query.get("limit").unwrap_or_default();
            return refuse(&format!("invalid literal for int() with base 10: '{given}'"));
        }
    };
    let all = rows(query.is_set("detail"));
    let total = all.len();
    match filter(query, columns, all) {
        Ok(rows) => json(listing(total, rows.len(), &rows.into_iter().take(limit).collect())),
        Err(refusal) => refusal,
    }
}

/// The response with a summary of all rows that match the query's filters.
pub(super) fn summarized(
    query: &Query,
    columns: &Columns,
    rows: Vec<Value>,
    summary: impl FnOnce(&[Value]) -> String,
) -> Response<Body> {
    match filter(query, columns, rows) {
        Ok(rows) => json(summary(&rows)),
        Err(refusal) => refusal,
    }
}

/// The rows that match the query's filters, or Ray's error response.
pub(super) fn filter(
    query: &Query,
    columns: &Columns,
    rows: Vec<Value>,
) -> Result<Vec<Value>, Response<Body>> {
    let of = |key| query.all(key).collect::<Vec<_>>();
    let (keys, predicates, values) = (of("filter_keys"), of("filter_predicates"), of("filter_values"));
    if keys.len() != predicates.len() || keys.len() != values.len() {
        return Err(in_trouble());
    }
    if let Some(unknown) = keys.iter().find(|k| !columns.0.contains(k)) {
        return Err(refuse(&format!(
            "The given filter column {unknown} is not supported. Enter filters with –filter key=value or –filter key!=value Supported filter columns: {:?}",
            columns.0
        )));
    }
    let matches = |row: &Value| {
        keys.iter().zip(&predicates).zip(&values).all(|((key, predicate), wanted)| {
            let value = match &row[*key] {
                Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            value.eq_ignore_ascii_case(wanted) != (*predicate == "!=")
        })
    };
    Ok(rows.into_iter().filter(matches).collect())
}

/// The state API's envelope. Truncation is silent, as in Ray.
pub(super) fn listing(total: usize, filtered: usize, result: &Value) -> String {
    dumps(&json!({"result": true, "msg": "", "data": {"result": {
        "total": total, "num_after_truncation": total, "num_filtered": filtered, "result": result,
        "partial_failure_warning": "", "warnings": null,
    }}}))
}

/// Ray's error response for an invalid option.
pub(super) fn refuse(message: &str) -> Response<Body> {
    refuse_with(StatusCode::BAD_REQUEST, message)
}

/// An error response with this status.
pub(super) fn refuse_with(status: StatusCode, message: &str) -> Response<Body> {
    let body = dumps(&json!({"result": false, "msg": message, "data": {"result": null}}));
    whole(status, "application/json; charset=utf-8", body)
}
