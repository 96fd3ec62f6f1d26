use quote::quote;

use super::expand;

#[test]
fn a_part_of_a_kind() {
    let tokens = expand(quote! {
        /// What is read of a pod.
        #[derive(Partial)]
        #[partial(of = v1::Pod, crate = platform::kooper)]
        struct PodNode {
            metadata: ObjectMeta,
            pub(crate) spec: Option<NodeOfSpec>,
            #[partial(rename = "x-phase")]
            r#type: String,
        }
    });
    let file = syn2::parse_file(&tokens.to_string()).expect("an expansion is a file of Rust");
    insta::assert_snapshot!(prettyplease::unparse(&file));
}
