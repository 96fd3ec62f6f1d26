//! Messages for errors whose own messages may quote a secret.

use std::error::Error as StdError;

use kube::client::AuthError;
use kube::config::{KubeconfigError, LoadDataError};

/// The message for an error that must not be shown as it is; `None` for others.
pub(super) fn words(error: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<AuthError>() {
        return Some(auth(error));
    }
    if let Some(error) = error.downcast_ref::<KubeconfigError>() {
        return file(error);
    }
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::SerdeError(error) => Some(format!(
            "the API server's response does not match the requested type (line {}, column {})",
            error.line(),
            error.column()
        )),
        kube::Error::ProxyProtocolUnsupported { proxy_url } => {
            let scheme = proxy_url.scheme_str().unwrap_or("none");
            Some(format!("the scheme of the proxy's URL is {scheme}: write http, https or socks5"))
        }
        kube::Error::ProxyProtocolDisabled { protocol_feature, .. } => {
            // kooper's feature enables that of kube, and has its name.
            let feature = protocol_feature.trim_start_matches("kube/");
            Some(format!(
                "the proxy's URL needs the feature `{feature}` of kooper: run `cargo add kooper --features {feature}`, and \
                 build the program again"
            ))
        }
        _ => None,
    }
}

/// The message for a file that a kubeconfig names. If the path is a key by mistake,
/// the original message would quote the key.
fn file(error: &KubeconfigError) -> Option<String> {
    let (what, error) = match error {
        KubeconfigError::LoadCertificateAuthority(error) => ("certificate authority", error),
        KubeconfigError::LoadClientCertificate(error) => ("client certificate", error),
        KubeconfigError::LoadClientKey(error) => ("client key", error),
        _ => return None,
    };
    match error {
        LoadDataError::ReadFile(error, _) => Some(format!("the file of the {what} cannot be read: {error}")),
        _ => None,
    }
}

/// The problem with the credentials of a kubeconfig's user.
fn auth(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(error) => format!("the exec plugin of the user cannot be started: {error}"),
        AuthError::AuthExecRun { out, .. } => {
            format!(
                "the exec plugin of the user failed with {}: run it by hand, as its output is not shown",
                out.status
            )
        }
        AuthError::AuthExecParse(_) | AuthError::ExecPluginFailed => {
            "the exec plugin of the user printed no ExecCredential with a status: run it by hand, as its output is \
             not shown"
                .to_owned()
        }
        AuthError::MalformedTokenExpirationDate(_) => {
            "the expiration time of the user's credentials is invalid: it must be an RFC 3339 timestamp".to_owned()
        }
        AuthError::MissingCommand => "the exec plugin of the user has no command".to_owned(),
        // An unknown provider, or one without a token; also an exec plugin, if the runtime ends while it runs.
        AuthError::AuthExec(_) => {
            "the `auth-provider` of the user cannot be used: replace one in the kubeconfig with an exec plugin"
                .to_owned()
        }
        AuthError::ReadTokenFile(error, _) => format!("the token file of the user cannot be read: {error}"),
        AuthError::InvalidBasicAuth(_) | AuthError::InvalidBearerToken(_) => {
            "the token or password of the user contains characters that are not allowed in a header".to_owned()
        }
        AuthError::UnrefreshableTokenResponse => {
            "the exec plugin of the user returned a token at first, but none when it was run again".to_owned()
        }
        _ => "the credentials of the user cannot be used".to_owned(),
    }
}
