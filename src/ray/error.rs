//! Errors of requests to a head, over HTTP or gRPC, each with a hint.
//!
//! An error never contains a token, a traceback or more than one line of a server's response.

use crate::model::{MissingPart, Problem, ProblemKind, Text, Timestamp, Verb};

/// Why a request to Ray failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RayError {
    /// HTTP 401 or gRPC `UNAUTHENTICATED` with no token sent.
    #[error("the cluster requires a token, and none was found")]
    TokenMissing,
    /// HTTP 403 or gRPC `UNAUTHENTICATED` with a token sent.
    #[error("the cluster refuses this token")]
    TokenRefused,
    /// HTTP 403 for another reason, in Ray's words (e.g. profiling is off).
    #[error("forbidden by Ray: {0}")]
    Forbidden(String),
    /// The server is not a Ray dashboard; with what it returned.
    #[error("not a Ray dashboard: {0}")]
    NotRay(String),
    /// No response: refused, reset, timed out.
    #[error("no response: {0}")]
    Silent(String),
    /// No response to the submission of a job.
    #[error("no response: {why}; job {id} may have been submitted")]
    Unconfirmed {
        /// The id of the job.
        id: Text,
        /// The reason.
        why: String,
    },
    /// An HTTP error status and the message that came with it.
    #[error("Ray returned HTTP {code}: {message}")]
    Status {
        /// HTTP status code.
        code: u16,
        /// The body's message on one line, shortened; for a traceback, that of the innermost exception.
        message: String,
    },
    /// The response exceeds this limit in bytes.
    #[error("the response is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The response could not be parsed.
    #[error("cannot parse the response of {route}: {why}")]
    Malformed { route: String, why: String },
    /// A gRPC error of the GCS: code and message.
    #[error("the GCS returned {0}")]
    Grpc(String),
    /// Only a part of the cluster's state could be read.
    #[error("cannot read {0}")]
    Partial(MissingPart),
    /// Ray lists at most this number of tasks or actors, and at least as many are running.
    #[error("at least {max} {list} are running on the cluster, and Ray lists no more")]
    TooMany {
        /// `tasks` or `actors`.
        list: &'static str,
        /// The number.
        max: usize,
    },
    /// The job has a label selector, which this version of Ray does not accept.
    #[error("Ray {version} does not support label selectors, which need Ray 2.54 or later")]
    NoLabelSelectors {
        /// The version of the cluster.
        version: Text,
    },
    /// Not found, in Ray's words.
    #[error("{0}")]
    NotFound(String),
    /// The client could not be created (a bad URL, no CA certificates on this machine).
    #[error("{0}")]
    Setup(String),
}

impl RayError {
    /// Whether the error is permanent, so that retrying is pointless.
    pub fn is_final(&self) -> bool {
        let refused = |code: u16| (400..500).contains(&code) && code != 408 && code != 429;
        match self {
            Self::NotFound(_) | Self::Forbidden(_) | Self::NoLabelSelectors { .. } => true,
            Self::Status { code, .. } => refused(*code),
            other => other.is_token(),
        }
    }

    /// Whether the token is missing or rejected: retrying with the same token is pointless.
    pub fn is_token(&self) -> bool {
        matches!(self, Self::TokenMissing | Self::TokenRefused)
    }

    /// The error as a problem of the connection, with its hint.
    pub fn problem(&self, since: Timestamp) -> Problem {
        let (kind, hint) = match self {
            Self::TokenMissing => (
                ProblemKind::TokenMissing,
                "put the cluster's token in ~/.ray/auth_token (mode 600) or set RAY_AUTH_TOKEN, then reconnect",
            ),
            Self::TokenRefused => (
                ProblemKind::TokenRefused,
                "the token is outdated or belongs to another cluster: replace it in ~/.ray/auth_token or RAY_AUTH_TOKEN, \
                 then reconnect",
            ),
            Self::NotRay(_) => {
                (ProblemKind::NotRay, "check the address and the dashboard port (default 8265)")
            }
            Self::Silent(_) => (
                ProblemKind::DashboardSilent,
                "a head needs about 10 s to start; otherwise check dashboard.log on the head",
            ),
            Self::Unconfirmed { id, .. } => {
                let hint = Verb::ExplainJob.on(id.raw(), "before you submit it again, check it");
                return Problem::new(ProblemKind::DashboardSilent, self.to_string(), hint, since);
            }
            Self::Setup(_) => {
                (ProblemKind::Config, "correct the address; https needs CA certificates on this machine")
            }
            Self::TooLarge(_) => (
                ProblemKind::Other,
                "the dashboard's response is too large; the GCS is read instead as soon as it responds",
            ),
            Self::Malformed { .. } => (
                ProblemKind::Other,
                "the response was cut off, or this Ray version is not supported; refresh, or check dashboard.log on the head",
            ),
            Self::Forbidden(_) | Self::NotFound(_) => (ProblemKind::Other, ""),
            Self::Partial(_) => {
                (ProblemKind::Other, "retry; check dashboard.log and gcs_server.out on the head")
            }
            Self::TooMany { .. } => (ProblemKind::Other, "retry when fewer are running"),
            Self::NoLabelSelectors { .. } => {
                (ProblemKind::Other, "remove the label selector, or upgrade Ray on the cluster")
            }
            Self::Status { .. } | Self::Grpc(_) => (ProblemKind::Other, "check dashboard.log on the head"),
        };
        Problem::new(kind, self.to_string(), hint, since)
    }
}

/// Maximum number of characters of a server's message in an error.
const MAX_MESSAGE_CHARS: usize = 300;

/// The message of an error body, on one line: `msg` of Ray's JSON envelope or the text itself; for a Python traceback,
/// the message of its innermost exception. Ray's job head wraps the agent's traceback in a sentence of its own that
/// ends with a full stop on the last line (`job_head.py`, `_raise_error`), which must not hide that message.
pub(super) fn message_of(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Envelope {
        msg: String,
    }
    let text = match serde_json::from_slice::<Envelope>(body) {
        Ok(envelope) => envelope.msg,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let has_word = |line: &&str| line.contains(char::is_alphanumeric);
    // A program that Ray ran has failed: the first line of its standard error has the cause, and a backtrace follows.
    if let Some((_, stderr)) = text.split_once("\n=== stderr ===\n")
        && let Some(why) = stderr.lines().find(has_word)
    {
        return why.trim().chars().take(MAX_MESSAGE_CHARS).collect();
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(has_word).collect();
    let after_frames = lines.iter().rposition(|l| l.starts_with("  ")).map_or(0, |frame| frame + 1);
    let line = match &lines[after_frames..] {
        message if after_frames > 0 && !message.is_empty() => message.join(" "),
        _ => lines.last().map_or_else(|| "(nothing)".to_owned(), |l| l.trim().to_owned()),
    };
    line.chars().take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceback_is_never_repeated() {
        let body = b"Traceback (most recent call last):\n  File \"/opt/ray/x.py\", line 1\nValueError: no such job\n\n";
        assert_eq!(message_of(body), "ValueError: no such job");
        assert_eq!(
            message_of(br#"{"result":false,"msg":"first\nInvalid filter","data":{}}"#),
            "Invalid filter"
        );
        assert_eq!(message_of(b"  \n"), "(nothing)");
        assert_eq!(message_of(b"x\n."), "x", "a line without a word is skipped");
        assert_eq!(message_of(&[b'x'; 5000]).len(), MAX_MESSAGE_CHARS);
    }

    #[test]
    fn the_innermost_exception_of_a_wrapped_traceback_is_returned_completely() {
        // Recorded from Ray 2.60: the agent's traceback within the head's.
        let body = "Traceback (most recent call last):\n  File \"/r/job_head.py\", line 391, in submit_job\n    \
             resp = await job_agent_client.submit_job_internal(req)\nRuntimeError: Request failed with status code \
             500: Traceback (most recent call last):\n  File \"/r/job_agent.py\", line 42, in submit_job\n    \
             raise ValueError(\nValueError: Job with submission_id f1 already exists. Please use a different \
             submission_id.\n.\n";
        let wanted =
            "ValueError: Job with submission_id f1 already exists. Please use a different submission_id.";
        assert_eq!(message_of(body.as_bytes()), wanted);
        let of_two_lines =
            b"Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError: first\nsecond\n";
        assert_eq!(message_of(of_two_lines), "ValueError: first second");
    }

    #[test]
    fn the_first_error_line_of_a_program_that_ray_ran_is_returned() {
        // Recorded from Ray 2.53: py-spy with a process that has ended.
        let body = "Failed to execute `['/opt/ray/bin/py-spy', 'dump', '-p', '999999']`.\n\n=== stderr ===\nError: Failed to get \
             process executable name. Check that the process is running.\n\nCaused by:\n    0: No such file or directory \
             (os error 2)\n\n\n=== stdout ===\n\n";
        let wanted = "Error: Failed to get process executable name. Check that the process is running.";
        assert_eq!(message_of(body.as_bytes()), wanted);
    }

    #[test]
    fn a_problem_has_a_hint() {
        let p = RayError::TokenRefused.problem(Timestamp::from_millis(7));
        assert_eq!((p.kind, p.since), (ProblemKind::TokenRefused, Timestamp::from_millis(7)));
        assert!(p.hint.to_string().contains("RAY_AUTH_TOKEN"), "{}", p.hint);
    }
}
