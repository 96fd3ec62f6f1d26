//! Requests that fail for a while: the program is stopped already, and has to be removed completely.

use kooper_runtime::BoxError;
use kooper_runtime::internal::error::chain;

/// The response, or the text of an error that a later request may not have.
pub(super) fn settled<T, E: Into<BoxError>>(response: Result<T, E>) -> Result<Result<T, String>, BoxError> {
    match response.map_err::<BoxError, _>(Into::into) {
        Ok(done) => Ok(Ok(done)),
        Err(error) if error.downcast_ref::<kube::Error>().is_some_and(is_temporary) => Ok(Err(chain(&*error))),
        Err(error) => Err(error),
    }
}

/// Returns `true` unless the API server has refused the request. A list that has expired can be requested again.
fn is_temporary(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || matches!(status.code, 408 | 410 | 429),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_a_refusal_is_final() {
        let refused = |code| {
            let status = Status { code, message: "no".into(), ..Status::default() };
            settled(Err::<(), kube::Error>(kube::Error::Api(Box::new(status))))
        };
        for code in [408, 410, 429, 500, 503] {
            let Ok(Err(problem)) = refused(code) else { panic!("{code} is temporary") };
            assert!(problem.contains("no"), "{problem}");
        }
        for code in [400, 401, 403, 404, 409, 422] {
            assert!(refused(code).is_err(), "{code}");
        }
        assert!(matches!(settled(Err::<(), kube::Error>(kube::Error::LinesCodecMaxLineLengthExceeded)), Ok(Err(_))));
        assert!(matches!(settled(Ok::<_, kube::Error>(1)), Ok(Ok(1))));
    }
}
