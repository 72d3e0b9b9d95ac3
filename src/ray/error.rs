//! What can go wrong between us and a head, in the words a person acts on.
//!
//! One error for both channels. Must never carry a token, a traceback or more than a line of what a server said.

use crate::model::{Problem, ProblemKind, Timestamp};

/// Why Ray did not answer as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RayError {
    /// HTTP 401 or gRPC `UNAUTHENTICATED` with no token sent.
    #[error("the cluster asks for a token and none is known")]
    TokenMissing,
    /// HTTP 403 or gRPC `UNAUTHENTICATED` with a token sent.
    #[error("the cluster refuses this token")]
    TokenRefused,
    /// HTTP 403 for another reason, in Ray's words (profiling is off, say).
    #[error("ray forbids it: {0}")]
    Forbidden(String),
    /// Something answers, but it is not a Ray dashboard; what was seen.
    #[error("this is not a ray dashboard: {0}")]
    NotRay(String),
    /// No answer: refused, reset, timed out.
    #[error("no answer: {0}")]
    Silent(String),
    /// An HTTP error status and the message that came with it.
    #[error("ray answers {code}: {message}")]
    Status {
        /// HTTP status code.
        code: u16,
        /// The body's message on one line, shortened; of a traceback the innermost exception's.
        message: String,
    },
    /// The answer is larger than we take; the limit in bytes.
    #[error("the answer is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The answer cannot be read as what it should be.
    #[error("the answer of {route} cannot be read: {why}")]
    Malformed {
        /// What was asked.
        route: String,
        /// What the parser said.
        why: String,
    },
    /// The GCS refuses a call; gRPC code and words.
    #[error("the gcs answers {0}")]
    Grpc(String),
    /// No such thing, in Ray's words.
    #[error("{0}")]
    NotFound(String),
    /// The client itself could not be made (a bad URL, no certificate authorities on this machine).
    #[error("{0}")]
    Setup(String),
}

impl RayError {
    /// Whether only a person can mend it: asking again with the same token is pointless.
    pub fn is_token(&self) -> bool {
        matches!(self, Self::TokenMissing | Self::TokenRefused)
    }

    /// The error as a problem of the link, with what to do about it.
    pub fn problem(&self, since: Timestamp) -> Problem {
        let (kind, mend) = match self {
            Self::TokenMissing => (
                ProblemKind::TokenMissing,
                "put the cluster's token in ~/.ray/auth_token (mode 600) or set RAY_AUTH_TOKEN, then reconnect",
            ),
            Self::TokenRefused => (
                ProblemKind::TokenRefused,
                "the token is another cluster's or outdated: replace it in ~/.ray/auth_token or RAY_AUTH_TOKEN, \
                 then reconnect",
            ),
            Self::NotRay(_) => (
                ProblemKind::NotRay,
                "check the address and the dashboard port (8265 unless the cluster was started with another)",
            ),
            Self::Silent(_) => (
                ProblemKind::DashboardSilent,
                "a starting head needs some 10 s; otherwise look at dashboard.log on the head",
            ),
            Self::Setup(_) => {
                (ProblemKind::Config, "correct the address; https needs certificate authorities")
            }
            Self::TooLarge(_) => {
                (ProblemKind::Other, "this cluster is larger than the console can read this way")
            }
            Self::Malformed { .. } => (
                ProblemKind::Other,
                "the answer was cut off, or this ray version is unknown here; refresh, or look at dashboard.log on the head",
            ),
            Self::Forbidden(_) | Self::NotFound(_) => (ProblemKind::Other, ""),
            Self::Status { .. } | Self::Grpc(_) => {
                (ProblemKind::Other, "dashboard.log on the head tells more")
            }
        };
        Problem::new(kind, self.to_string(), mend, since)
    }
}

/// Most characters of a server's words that an error repeats.
const WORDS: usize = 300;

/// What an error body says, on one line: `msg` of Ray's JSON envelope or the text itself; of a Python traceback the
/// message of its innermost exception. Ray's job head wraps the agent's traceback in a sentence of its own that ends
/// with a full stop on the last line (`job_head.py`, `_raise_error`), which must not hide that message.
pub(super) fn message_of(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Envelope {
        msg: String,
    }
    let text = match serde_json::from_slice::<Envelope>(body) {
        Ok(envelope) => envelope.msg,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let says_something = |line: &&str| line.contains(char::is_alphanumeric);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(says_something).collect();
    let after_frames = lines.iter().rposition(|l| l.starts_with("  ")).map_or(0, |frame| frame + 1);
    let line = match &lines[after_frames..] {
        message if after_frames > 0 && !message.is_empty() => message.join(" "),
        _ => lines.last().map_or_else(|| "(nothing)".to_owned(), |l| l.trim().to_owned()),
    };
    line.chars().take(WORDS).collect()
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
        assert_eq!(message_of(b"x\n."), "x", "a line without a word says nothing");
        assert_eq!(message_of(&[b'x'; 5000]).len(), WORDS);
    }

    #[test]
    fn the_innermost_exception_of_a_wrapped_traceback_is_told_whole() {
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
    fn a_problem_names_its_mend() {
        let p = RayError::TokenRefused.problem(Timestamp::from_millis(7));
        assert_eq!((p.kind, p.since), (ProblemKind::TokenRefused, Timestamp::from_millis(7)));
        assert!(p.mend.contains("RAY_AUTH_TOKEN"), "{}", p.mend);
    }
}
