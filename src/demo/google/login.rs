//! Access tokens: of a user account (RFC 6749, section 6), of an external account (Security Token Service, RFC 8693),
//! and of a service account that is impersonated (IAM Service Account Credentials v1) or attached to a machine (Compute
//! Engine documentation, "VM metadata").

use super::answer::{Answer, ApiRequest, not_found, ok, refusal, status_of, time};
use super::fault::Fault;
use http::StatusCode;
use serde_json::{Value, json};

/// The bearer token that all endpoints issue.
pub(super) const BEARER: &str = "ya29.made-up-access-token";

/// Path prefix of a machine's metadata server.
pub(super) const OF_MACHINE: &str = "/computeMetadata/v1/";
/// The default service account of a machine.
const MACHINE: &str = "1234567890-compute@developer.gserviceaccount.com";

/// Whether a POST to the path only issues a token and changes nothing.
pub(super) fn issues_token(path: &str) -> bool {
    matches!(path, "/token" | "/v1/token") || path.ends_with(":generateAccessToken")
}

/// The response body of a token endpoint.
pub(super) fn token_response() -> Value {
    json!({"access_token": BEARER, "expires_in": 3599, "token_type": "Bearer"})
}

/// The token type that the Security Token Service issues.
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// Exchanges the token of another identity provider.
pub(super) fn exchanged(request: &ApiRequest) -> Answer {
    let text = |key: &str| request.body[key].as_str().unwrap_or_default();
    let is_valid = |key: &&str| match *key {
        "grant_type" => text(key) == "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type" => text(key) == ACCESS_TOKEN,
        _ => !text(key).is_empty(),
    };
    let required =
        ["grant_type", "audience", "scope", "requested_token_type", "subject_token", "subject_token_type"];
    if let Some(wrong) = required.iter().find(|key| !is_valid(key)) {
        let why = format!("Invalid value for \"{wrong}\".");
        return (StatusCode::BAD_REQUEST, json!({"error": "invalid_request", "error_description": why}));
    }
    let mut answer = token_response();
    answer["issued_token_type"] = json!(ACCESS_TOKEN);
    ok(answer)
}

/// Issues a token for an impersonated service account.
pub(super) fn impersonated(request: &ApiRequest, account: &str) -> Answer {
    if !account.ends_with(":generateAccessToken") {
        return not_found(&request.path);
    }
    if request.body["scope"].as_array().is_none_or(Vec::is_empty) {
        return refusal(400, "INVALID_ARGUMENT", None, "Request contains an invalid argument.");
    }
    // Whole seconds: Google's own library accepts nothing else.
    let until = jiff::Timestamp::now().as_second() + 3600;
    ok(json!({"accessToken": BEARER, "expireTime": time(until * 1000)}))
}

/// A machine's service account, or its token, by the path below [`OF_MACHINE`]. There is no other metadata.
pub(super) fn machine(path: &str) -> Answer {
    let of_account = path.strip_prefix("instance/service-accounts/");
    match of_account.and_then(|of| of.split_once('/')) {
        Some(("default" | MACHINE, "token")) => ok(token_response()),
        Some(("default" | MACHINE, "")) => {
            let scope = "https://www.googleapis.com/auth/cloud-platform";
            ok(json!({"aliases": ["default"], "email": MACHINE, "scopes": [scope]}))
        }
        _ => not_found(path),
    }
}

/// Refreshes an authorized user's grant.
pub(super) fn refreshed(request: &ApiRequest, fault: Option<&Fault>) -> Answer {
    match fault {
        Some(Fault::Grant { error, subtype }) => {
            let mut body = json!({"error": error, "error_description": "Token has been expired or revoked."});
            if let Some(subtype) = subtype {
                body["error_subtype"] = json!(subtype);
                body["error_description"] = json!("reauth related error (invalid_rapt)");
            }
            (StatusCode::BAD_REQUEST, body)
        }
        Some(Fault::Skew) => {
            let why = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. \
                       Check your iat and exp values in the JWT claim.";
            (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant", "error_description": why}))
        }
        Some(Fault::Refuse { code, .. }) => (status_of(*code), json!({"error": "internal_failure"})),
        _ if request.body["refresh_token"].as_str().is_none_or(str::is_empty) => {
            (StatusCode::BAD_REQUEST, json!({"error": "invalid_request"}))
        }
        _ => ok(token_response()),
    }
}
