//! A table of all known Google errors and their hints; each command in a hint can be pasted.

use crate::shell::{check, checked};
use marin_tui::demo::google::{Fault, Google as Double, PROJECT, write_login};
use marin_tui::gcp::{Endpoints, GcpError, Google, Login, Role};
use marin_tui::model::Verb;
use marin_tui::model::{ClusterName, Hint, ImageName, Target};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const NAME: &str = "RAY_AUTH_TOKEN";

/// A case, the status and body of Google's response, and the expected words.
type Case = (&'static str, u16, &'static str, &'static [&'static str]);

const RENEWS: &str = "me.json (authorized_user, set by google_credentials)";

/// Errors of Secret Manager, in the format of all newer APIs (AIP-193).
const REFUSED: &[Case] = &[
    (
        "permission",
        403,
        r#"{"error": {"code": 403, "message": "Permission 'secretmanager.versions.access' denied for resource 'projects/1/secrets/X/versions/latest' (or it may not exist).", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED", "domain": "iam.googleapis.com", "metadata": {"permission": "secretmanager.versions.access", "resource": "projects/1"}}]}}"#,
        &["roles/secretmanager.secretAccessor"],
    ),
    (
        "API off, with its details",
        403,
        r#"{"error": {"code": 403, "message": "Secret Manager API has not been used in project 1234567890 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/secretmanager.googleapis.com/overview?project=1234567890 then retry.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": {"service": "secretmanager.googleapis.com", "consumer": "projects/1234567890"}}]}}"#,
        &["gcloud services enable secretmanager.googleapis.com --project=1234567890"],
    ),
    (
        "API off, without a consumer",
        403,
        r#"{"error": {"code": 403, "message": "The API is disabled.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": {"service": "secretmanager.googleapis.com"}}]}}"#,
        &["gcloud services enable secretmanager.googleapis.com --project=hai-test"],
    ),
    (
        "API off, unnamed",
        403,
        r#"{"error": {"code": 403, "message": "The API is disabled.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com"}]}}"#,
        &["an API is not enabled: The API is disabled.", "enable the API named in the message"],
    ),
    (
        "scopes",
        403,
        r#"{"error": {"code": 403, "message": "Request had insufficient authentication scopes.", "errors": [{"message": "Insufficient Permission", "domain": "global", "reason": "insufficientPermissions"}], "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "ACCESS_TOKEN_SCOPE_INSUFFICIENT", "domain": "googleapis.com", "metadata": {"service": "secretmanager.googleapis.com", "method": "google.cloud.secretmanager.v1.SecretManagerService.AccessSecretVersion"}}]}}"#,
        &["insufficient scopes", RENEWS, "gcloud auth application-default login && mv $d/"],
    ),
    (
        "quota project that is not allowed",
        403,
        r#"{"error": {"code": 403, "message": "Caller does not have required permission to use project xxx-yyy. Grant the caller the roles/serviceusage.serviceUsageConsumer role, or a custom role with the serviceusage.services.use permission, by visiting https://console.developers.google.com/iam-admin/iam/project?project=xxx-yyy and then retry. Propagation of the new permission may take a few minutes.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.Help", "links": []}, {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "USER_PROJECT_DENIED", "domain": "googleapis.com", "metadata": {"consumer": "projects/xxx-yyy", "service": "secretmanager.googleapis.com"}}]}}"#,
        &[
            "refused the quota project",
            RENEWS,
            "ask the owner of xxx-yyy for roles/serviceusage.serviceUsageConsumer",
            "export GOOGLE_CLOUD_QUOTA_PROJECT=hai-test",
        ],
    ),
    (
        "no quota project",
        403,
        r#"{"error": {"code": 403, "message": "Your application is authenticating by using local Application Default Credentials. The secretmanager.googleapis.com API requires a quota project, which is not set by default. To learn how to set your quota project, see https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds .", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": {"service": "secretmanager.googleapis.com", "consumer": "projects/764086051850"}}]}}"#,
        &["requires a quota project", "export GOOGLE_CLOUD_QUOTA_PROJECT=hai-test"],
    ),
    (
        "billing",
        403,
        r#"{"error": {"code": 403, "message": "This API method requires billing to be enabled. Please enable billing on project #1051023892108 by visiting https://console.developers.google.com/billing/enable?project=1051023892108 then retry.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "BILLING_DISABLED", "domain": "googleapis.com", "metadata": {"consumer": "projects/1051023892108", "service": "secretmanager.googleapis.com"}}]}}"#,
        &["billing is disabled", "link a billing account", "gcloud billing projects describe 1051023892108"],
    ),
    (
        "service perimeter",
        403,
        r#"{"error": {"code": 403, "message": "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: A1b2C3", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SECURITY_POLICY_VIOLATED", "domain": "googleapis.com", "metadata": {"uid": "A1b2C3", "service": "secretmanager.googleapis.com"}}]}}"#,
        &["forbidden by a policy of your organization", "A1b2C3", "quote the identifier"],
    ),
    (
        "login refused",
        401,
        r#"{"error": {"code": 401, "message": "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.", "status": "UNAUTHENTICATED"}}"#,
        &["401", RENEWS, "`gcloud auth login` alone is not enough"],
    ),
    (
        "disabled version",
        400,
        r#"{"error": {"code": 400, "message": "Secret Version [projects/1234567890/secrets/RAY_AUTH_TOKEN/versions/7] is in DISABLED state.", "status": "FAILED_PRECONDITION"}}"#,
        &[
            "gcloud secrets versions enable 7 --secret=RAY_AUTH_TOKEN --project=hai-test",
            "gcloud secrets versions add RAY_AUTH_TOKEN --project=hai-test --data-file=-",
        ],
    ),
    (
        "destroyed version",
        400,
        r#"{"error": {"code": 400, "message": "Secret Version [projects/1234567890/secrets/RAY_AUTH_TOKEN/versions/7] is in DESTROYED state.", "status": "FAILED_PRECONDITION"}}"#,
        &["gcloud secrets versions add RAY_AUTH_TOKEN --project=hai-test --data-file=-"],
    ),
    (
        "busy queued resource",
        400,
        r#"{"error": {"code": 400, "message": "QueuedResource is in state PROVISIONING", "status": "FAILED_PRECONDITION"}}"#,
        &["wait for the state", "marin-tui -c lab tpus"],
    ),
    (
        "not found",
        404,
        r#"{"error": {"code": 404, "message": "Secret [projects/1/secrets/X] not found or has no versions.", "status": "NOT_FOUND"}}"#,
        &["check the name and the project"],
    ),
    (
        "quota",
        429,
        r#"{"error": {"code": 429, "message": "Quota exceeded for quota metric 'Access requests'.", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED", "domain": "googleapis.com"}]}}"#,
        &["quota exceeded", "wait a minute"],
    ),
    (
        "another refusal",
        400,
        r#"{"error": {"code": 400, "message": "Request contains an invalid argument.", "status": "INVALID_ARGUMENT"}}"#,
        &["Google refused (400)"],
    ),
    (
        "unavailable",
        503,
        r#"{"error": {"code": 503, "message": "The service is currently unavailable.", "status": "UNAVAILABLE"}}"#,
        &["Google is unavailable (503)"],
    ),
];

/// Errors of Compute Engine, in the older format.
const REFUSED_BY_COMPUTE: &[Case] = &[
    (
        "Compute Engine: API off",
        403,
        r#"{"error": {"code": 403, "message": "Compute Engine API has not been used in project 1234567890 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/compute.googleapis.com/overview?project=1234567890 then retry.", "errors": [{"message": "Compute Engine API has not been used", "domain": "usageLimits", "reason": "accessNotConfigured"}]}}"#,
        &["gcloud services enable compute.googleapis.com --project=1234567890"],
    ),
    (
        "Compute Engine: billing",
        403,
        r#"{"error": {"code": 403, "message": "Project charming-module-137923 (#808448574146) has billing disabled. Please enable it.", "errors": [{"domain": "global", "message": "Project charming-module-137923 (#808448574146) has billing disabled. Please enable it.", "reason": "forbidden"}], "status": "PERMISSION_DENIED"}}"#,
        &["billing is disabled", "gcloud billing projects describe hai-test"],
    ),
    (
        "Compute Engine: constraint",
        412,
        r#"{"error": {"code": 412, "message": "Constraint constraints/compute.vmExternalIpAccess violated for project 1234567890. Add instance projects/hai-test/zones/z/instances/i to the constraint to use external IP with it.", "errors": [{"message": "Constraint constraints/compute.vmExternalIpAccess violated", "domain": "global", "reason": "conditionNotMet"}]}}"#,
        &[
            "forbidden by a policy",
            "gcloud org-policies describe compute.vmExternalIpAccess --project=hai-test --effective",
        ],
    ),
    (
        "Compute Engine: permission",
        403,
        r#"{"error": {"code": 403, "message": "Required 'compute.instances.list' permission for 'projects/hai-test'", "errors": [{"message": "Required 'compute.instances.list' permission for 'projects/hai-test'", "domain": "global", "reason": "forbidden"}]}}"#,
        &["a role with compute.instances.list (roles/compute.viewer)"],
    ),
];

/// Errors of Artifact Registry and Cloud Resource Manager.
const REFUSED_BY_OTHERS: &[Case] = &[
    (
        "Artifact Registry: permission",
        403,
        r#"{"error": {"code": 403, "message": "Permission 'artifactregistry.repositories.update' denied on resource '//artifactregistry.googleapis.com/projects/hai-test/locations/us-central2/repositories/marin' (or it may not exist).", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED", "domain": "artifactregistry.googleapis.com", "metadata": {"permission": "artifactregistry.repositories.update", "resource": "projects/hai-test/locations/us-central2/repositories/marin"}}]}}"#,
        &["a role with artifactregistry.repositories.update (roles/artifactregistry.admin)"],
    ),
    (
        "Artifact Registry: no such repository",
        404,
        r#"{"error": {"code": 404, "message": "Requested entity was not found.", "status": "NOT_FOUND"}}"#,
        &["check the name and the project"],
    ),
    (
        "Cloud Resource Manager: API off",
        403,
        r#"{"error": {"code": 403, "message": "Cloud Resource Manager API has not been used in project 1234567890 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/cloudresourcemanager.googleapis.com/overview?project=1234567890 then retry.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": {"service": "cloudresourcemanager.googleapis.com"}}]}}"#,
        &["gcloud services enable cloudresourcemanager.googleapis.com --project=1234567890"],
    ),
    (
        "Cloud Resource Manager: an unknown permission",
        400,
        r#"{"error": {"code": 400, "message": "Permission tpu.nodes.fly is not valid for this resource.", "status": "INVALID_ARGUMENT"}}"#,
        &["Google refused (400): Permission tpu.nodes.fly is not valid"],
    ),
];

/// Prints a row of the table, checks its commands, and asserts that it contains the expected words.
fn row(case: &str, error: &GcpError, expected: &[&str]) {
    let (message, hint) = (error.to_string(), error.hint());
    println!("{case}\n    {message}\n    {hint}");
    let lines = checked(&hint);
    let all = format!("{message}\n{hint}\n{}", lines.join("\n"));
    for words in expected {
        assert!(all.contains(words), "{case}: `{words}` is missing in:\n{all}");
    }
    assert!(!hint.is_empty(), "{case}: no hint for {message}");
}

async fn error(google: &Google) -> GcpError {
    google.latest_version(PROJECT, NAME).await.unwrap_err()
}

fn at(double: &Double, login: Login) -> Google {
    Google::new(Endpoints::all_at(&double.url()), login)
}

/// Error bodies recorded from Google, returned on the path of the respective service.
#[tokio::test]
async fn every_api_error_has_a_hint_that_can_be_pasted() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, "tok-0f1e2d3c4b5a");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("me.json");
    write_login(&file, &double.person()).unwrap();
    let google = at(&double, Login::file(file.clone()));
    for (case, code, body, expected) in REFUSED {
        double.fail(":access", Fault::Recorded { code: *code, body });
        row(case, &error(&google).await, expected);
        double.recover();
    }
    for (case, code, body, expected) in REFUSED_BY_COMPUTE {
        double.fail("aggregated", Fault::Recorded { code: *code, body });
        row(case, &google.machines(PROJECT, Role::Head, None).await.unwrap_err(), expected);
        double.recover();
    }
    for (case, code, body, expected) in REFUSED_BY_OTHERS {
        for path in [":testIamPermissions", "repositories"] {
            double.fail(path, Fault::Recorded { code: *code, body });
        }
        row(case, &google.lacks(PROJECT).await.unwrap_err(), expected);
        let registry = ImageName::parse("us-central2-docker.pkg.dev/hai-test/marin/x").unwrap().registry();
        row(case, &google.repository(&registry).await.unwrap_err(), expected);
        double.recover();
    }
    // Failures between the client and the API.
    for (case, path, fault, expected) in [
        ("load balancer", ":access", Fault::Html(502), "load balancer"),
        ("sign-in page", ":access", Fault::SignIn, "sign in to this network"),
        ("checksum", ":access", Fault::BadChecksum, "try again"),
        ("connection", ":access", Fault::HangUp, "check the network"),
        ("Retry-After", ":access", Fault::Busy(90), "wait 90 s"),
        ("clock", "/token", Fault::Skew, "timedatectl set-ntp true"),
    ] {
        double.fail(path, fault);
        // A client without an access token.
        let google = at(&double, Login::file(file.clone()));
        row(case, &error(&google).await, &[expected]);
        double.recover();
    }
}

/// Simulated services, and a credentials file for them.
struct Bed {
    double: Double,
    home: TempDir,
    file: PathBuf,
}

impl Bed {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a file.json");
        Self { double: Double::start().await.unwrap(), home, file }
    }

    fn put(&self, login: &Value) {
        write_login(&self.file, login).unwrap();
    }

    /// The error of the credentials file named by `google_credentials`.
    async fn error(&self) -> GcpError {
        error(&at(&self.double, Login::file(self.file.clone()))).await
    }

    /// The error of the application-default login with only this environment variable.
    async fn error_of(&self, name: &'static str, value: &Path) -> GcpError {
        let value = value.as_os_str().to_owned();
        let login = Login::application_default();
        let login = login.in_environment(move |requests| (requests == name).then(|| value.clone()));
        error(&at(&self.double, login)).await
    }

    fn quoted(&self) -> String {
        format!("'{}'", self.file.display())
    }

    /// The command that renews the credentials of a user account in the file.
    fn renewal(&self) -> String {
        let to = self.quoted();
        format!(
            "CLOUDSDK_CONFIG=$d gcloud auth application-default login && mv $d/application_default_credentials.json {to}"
        )
    }
}

const GONE: Fault = Fault::Recorded {
    code: 400,
    body: r#"{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}"#,
};

const ACCOUNT: &str = "ci@hai-test.iam.gserviceaccount.com";

/// A user account, with the credentials file named in each possible way.
#[tokio::test]
async fn a_failed_user_login_names_its_file_and_the_renewal() {
    let bed = Bed::new().await;
    let (renewal, folder) = (bed.renewal(), bed.home.path().display().to_string());
    bed.put(&bed.double.person());
    bed.double.fail("/token", GONE);
    row(
        "a person, google_credentials",
        &bed.error().await,
        &[
            "expired or were revoked (invalid_grant)",
            "a file.json (authorized_user, set by google_credentials)",
            &renewal,
        ],
    );
    let rapt = r#"{"error": "invalid_grant", "error_subtype": "invalid_rapt", "error_description": "reauth related error (invalid_rapt)"}"#;
    bed.double.recover();
    bed.double.fail("/token", Fault::Recorded { code: 400, body: rapt });
    row("a person who has to log in again", &bed.error().await, &["(invalid_rapt)", &renewal]);
    bed.double.recover();
    let client = r#"{"error": "deleted_client", "error_description": "The OAuth client was deleted."}"#;
    bed.double.fail("/token", Fault::Recorded { code: 401, body: client });
    row("a deleted client", &bed.error().await, &["deleted_client: The OAuth client was deleted", &renewal]);
    bed.double.recover();
    let scope = r#"{"error": "invalid_scope", "error_description": "Bad Request"}"#;
    bed.double.fail("/token", Fault::Recorded { code: 400, body: scope });
    row("a login for other scopes", &bed.error().await, &["insufficient scopes", &renewal]);
    bed.double.recover();
    bed.double.fail("/token", GONE);
    row(
        "a person, GOOGLE_APPLICATION_CREDENTIALS",
        &bed.error_of("GOOGLE_APPLICATION_CREDENTIALS", &bed.file).await,
        &["set by GOOGLE_APPLICATION_CREDENTIALS", &renewal],
    );
    let gcloud = bed.home.path().join(".config/gcloud");
    std::fs::create_dir_all(&gcloud).unwrap();
    write_login(&gcloud.join("application_default_credentials.json"), &bed.double.person()).unwrap();
    let login = bed.error_of("HOME", bed.home.path()).await;
    row(
        "a person, gcloud's file",
        &login,
        &["/.config/gcloud/application_default_credentials.json (authorized_user)"],
    );
    assert_eq!(checked(&login.hint()), ["gcloud auth application-default login"]);
    let login = bed.error_of("CLOUDSDK_CONFIG", &gcloud).await;
    row(
        "a person, CLOUDSDK_CONFIG",
        &login,
        &[
            "in the directory CLOUDSDK_CONFIG",
            &format!("CLOUDSDK_CONFIG={folder}/.config/gcloud gcloud auth application-default login"),
        ],
    );
    bed.double.recover();
    let quota = r#"{"error": {"code": 403, "message": "The API requires a quota project, which is not set by default.", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED", "domain": "googleapis.com", "metadata": {"consumer": "projects/764086051850"}}]}}"#;
    bed.double.fail(":access", Fault::Recorded { code: 403, body: quota });
    row(
        "no quota project, CLOUDSDK_CONFIG",
        &bed.error_of("CLOUDSDK_CONFIG", &gcloud).await,
        &[&format!(
            "CLOUDSDK_CONFIG={folder}/.config/gcloud gcloud auth application-default set-quota-project hai-test"
        )],
    );
    bed.double.recover();
}

#[tokio::test]
async fn a_failed_service_account_login_names_the_renewal() {
    let bed = Bed::new().await;
    let quoted = bed.quoted();
    bed.put(&bed.double.impersonated(ACCOUNT));
    bed.double.fail("/token", GONE);
    row(
        "a person who impersonates",
        &bed.error().await,
        &[
            &format!("(impersonated_service_account {ACCOUNT}, set by google_credentials)"),
            &format!("gcloud auth application-default login --impersonate-service-account={ACCOUNT} && mv"),
        ],
    );
    bed.double.recover();
    let denied = r#"{"error": {"code": 403, "message": "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).", "status": "PERMISSION_DENIED", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED", "domain": "iam.googleapis.com", "metadata": {"permission": "iam.serviceAccounts.getAccessToken"}}]}}"#;
    bed.double.fail(":generateAccessToken", Fault::Recorded { code: 403, body: denied });
    row("a person who must not impersonate", &bed.error().await, &["roles/iam.serviceAccountTokenCreator"]);
    bed.double.recover();
    bed.put(
        &json!({"type": "service_account", "client_email": ACCOUNT, "private_key_id": "k", "private_key": "none", "project_id": PROJECT}),
    );
    let key = format!("gcloud iam service-accounts keys create {quoted} --iam-account={ACCOUNT}");
    row(
        "a service account's key that is none",
        &bed.error().await,
        &[&format!("(service_account {ACCOUNT}"), &key],
    );
    bed.put(&json!({"type": "service_account", "client_email": ACCOUNT}));
    row("half a key", &bed.error().await, &["missing field", "correct or remove `google_credentials`", &key]);
}

#[tokio::test]
async fn a_failed_external_account_login_names_the_renewal() {
    let bed = Bed::new().await;
    let (quoted, subject) = (bed.quoted(), bed.home.path().join("subject"));
    bed.put(&bed.double.external(&subject));
    let renew =
        format!("renew the identity provider's token, which comes from the file {}", subject.display());
    let again = format!(
        "gcloud iam workload-identity-pools create-cred-config \
         projects/1234567890/locations/global/workloadIdentityPools/p/providers/x --credential-source-file={} \
         --subject-token-type=urn:ietf:params:oauth:token-type:jwt --credential-source-type=text --output-file={quoted}",
        subject.display()
    );
    row("an external account without its token", &bed.error().await, &["(external_account", &renew, &again]);
    std::fs::write(&subject, "").unwrap();
    row(
        "an external account with an empty token",
        &bed.error().await,
        &["Invalid value for \"subject_token\"", &renew],
    );
    std::fs::write(&subject, "subject-of-a-test").unwrap();
    let condition = r#"{"error": "invalid_grant", "error_description": "The given credential is rejected by the attribute condition."}"#;
    bed.double.fail("/v1/token", Fault::Recorded { code: 400, body: condition });
    let refused = bed.error().await;
    row("an external account that is refused", &refused, &["rejected by the attribute condition", &renew]);
    bed.double.recover();
    for (case, change, expected) in [
        ("AWS", json!({"credential_source": {"environment_id": "aws1"}}), "--aws --output-file"),
        (
            "a URL",
            json!({"credential_source": {"url": "http://127.0.0.1:9/t"}}),
            "--credential-source-url=http://127.0.0.1:9/t",
        ),
        (
            "a program, of a workforce, as a service account",
            json!({
                "audience": "//iam.googleapis.com/locations/global/workforcePools/w/providers/x",
                "workforce_pool_user_project": "p-1",
                "credential_source": {"executable": {"command": "/bin/false --now"}},
                "service_account_impersonation_url": format!("https://x/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken"),
            }),
            "gcloud iam workforce-pools create-cred-config locations/global/workforcePools/w/providers/x \
             --executable-command='/bin/false --now' --workforce-pool-user-project=p-1 --service-account=ci@",
        ),
    ] {
        let mut login = bed.double.external(&subject);
        login.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        bed.put(&login);
        row(&format!("an external account, {case}"), &bed.error().await, &[expected, "(external_account"]);
    }
}

#[tokio::test]
async fn invalid_credentials_files_and_machines_without_an_account_are_named() {
    let bed = Bed::new().await;
    let renewal = bed.renewal();
    bed.put(&json!({"type": "external_account_authorized_user"}));
    row(
        "another type",
        &bed.error().await,
        &["must be authorized_user", "(external_account_authorized_user", &renewal],
    );
    std::fs::write(&bed.file, "{").unwrap();
    row("a broken file", &bed.error().await, &["EOF", "a file.json", &renewal]);
    std::fs::remove_file(&bed.file).unwrap();
    row("no file", &bed.error().await, &["No such file", "set by google_credentials", &renewal]);
    let missing = bed.error_of("GOOGLE_APPLICATION_CREDENTIALS", &bed.file).await;
    row(
        "no file, GOOGLE_APPLICATION_CREDENTIALS",
        &missing,
        &["unset GOOGLE_APPLICATION_CREDENTIALS", &renewal],
    );
    let host = bed.double.url().trim_start_matches("http://").to_owned();
    bed.double.fail("/computeMetadata", Fault::Recorded { code: 404, body: "{}" });
    row(
        "a machine without a service account",
        &bed.error_of("GCE_METADATA_HOST", Path::new(&host)).await,
        &["404", "this machine's service account", "check that this machine has a service account"],
    );
}

/// Each type of credentials that `GOOGLE_APPLICATION_CREDENTIALS` accepts also works in the setting, and
/// `CLOUDSDK_CONFIG` sets gcloud's directory.
#[tokio::test]
async fn every_type_of_login_is_accepted() {
    let double = Double::start().await.unwrap();
    double.put_secret(NAME, "tok-0f1e2d3c4b5a");
    let home = tempfile::tempdir().unwrap();
    let subject = home.path().join("subject");
    std::fs::write(&subject, "subject-of-a-test").unwrap();
    let logins = [
        double.person(),
        double.impersonated("ci@hai-test.iam.gserviceaccount.com"),
        double.external(&subject),
    ];
    for login in logins {
        let file = home.path().join("application_default_credentials.json");
        write_login(&file, &login).unwrap();
        let folder = home.path().as_os_str().to_owned();
        let chosen = Login::application_default()
            .in_environment(move |name| (name == "CLOUDSDK_CONFIG").then(|| folder.clone()));
        for login in [Login::file(file.clone()), chosen] {
            let read = at(&double, login).latest_version(PROJECT, NAME).await;
            assert_eq!(read.map(|found| found.version), Ok("1".into()));
        }
    }
    let host = double.url().trim_start_matches("http://").to_owned();
    let machine = Login::application_default()
        .in_environment(move |name| (name == "GCE_METADATA_HOST").then(|| host.clone().into()));
    assert!(at(&double, machine).latest_version(PROJECT, NAME).await.is_ok());
    assert!(
        double.requests_with("serviceAccounts/ci@hai-test.iam.gserviceaccount.com:generateAccessToken") > 0
    );
    assert!(double.requests_with("POST /v1/token") > 0);
}

/// Checks the commands of this program in hints with its own parser.
#[test]
fn every_verb_is_a_command_of_this_program() {
    let cluster = ClusterName::new("lab");
    let target = Target::of(&cluster).with("restart-cluster");
    for verb in Verb::ALL.iter().filter(|verb| !verb.is_permission()) {
        let operation = matches!(verb, Verb::Resume | Verb::SkipStep | Verb::Abandon);
        for of in ["", if operation { "stop-cluster" } else { "w-1" }] {
            if let Some(line) = verb.command(of, target) {
                println!("{line}");
                check(&line).unwrap_or_else(|why| panic!("`{line}` cannot be pasted: {why}"));
            }
        }
    }
    // The parser rejects mistakes of earlier hints.
    for broken in [
        "gcloud services enable it --project=",
        "gcloud services enable it",
        "gcloud secrets versions add NAME",
        "gcloud secrets versions enable --secret=NAME --project=p",
        "gcloud org-policies describe --project=p",
        "gcloud iam workload-identity-pools create-cred-config a --output-file=f",
        "gcloud secrets versions add [NAME] --project=p --data-file=-",
        "gcloud no such command",
        "marin-tui -c lab remove-workers w-1",
    ] {
        assert!(check(broken).is_err(), "{broken}");
    }
    assert!(checked(&Hint::from("no command")).is_empty());
}
