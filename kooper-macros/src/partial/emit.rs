//! The code of a struct with some of the fields of another one.

use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use super::model::{Model, PartialField};
use crate::support::crate_path::CratePath;
use crate::support::types::last_word;

pub(crate) fn emit(model: &Model) -> TokenStream {
    let Model { ident, full, krate, fields } = model;
    let runtime = CratePath::new(krate.as_ref());
    let partial = quote!(#runtime::partial);
    let idents: Vec<_> = fields.iter().map(|field| &field.ident).collect();
    let types = fields.iter().map(|field| without_self(field.ty.to_token_stream(), ident));
    let names = fields.iter().map(|field| &field.name);
    let values: Vec<_> = (0..fields.len()).map(|index| format_ident!("__value_{index}")).collect();
    let indices = 0..fields.len();
    let defaults = fields.iter().map(|PartialField { ty, .. }| {
        let (place, runtime) = (ty.span(), runtime.at(ty.span()));
        quote_spanned!(place=> #runtime::partial::Default::default)
    });
    // Others are parts of objects, such as the template of a pod with its `Option<ObjectMeta>`.
    let is_kind = |field: &PartialField| field.ident == "metadata" && last_word(&field.ty) == "ObjectMeta";
    let resource = fields.iter().any(is_kind).then(|| resource(model, &partial));
    quote! {
        const _: () = {
            // A field that the full type does not have is an error at its name.
            const _: fn(&#full) = |__full| {
                #(let _ = &__full.#idents;)*
            };

            impl<'de> #partial::Deserialize<'de> for #ident {
                fn deserialize<__D: #partial::Deserializer<'de>>(
                    __deserializer: __D,
                ) -> #runtime::Result<Self, __D::Error> {
                    struct __Fields;

                    impl<'de> #partial::Visitor<'de> for __Fields {
                        type Value = #ident;

                        fn expecting(&self, __f: &mut #partial::Formatter<'_>) -> #partial::FormatResult {
                            __f.write_str("an object")
                        }

                        fn visit_map<__A: #partial::MapAccess<'de>>(
                            self,
                            mut __map: __A,
                        ) -> #runtime::Result<#ident, __A::Error> {
                            #(let mut #values: #runtime::Option<#types> = #runtime::Option::None;)*
                            let __fields = #partial::FieldName(&[#(#names),*]);
                            while let #runtime::Option::Some(__field) =
                                #partial::MapAccess::next_key_seed(&mut __map, __fields)?
                            {
                                match __field {
                                    #(#runtime::Option::Some(#indices) => {
                                        #values = #partial::MapAccess::next_value(&mut __map)?;
                                    })*
                                    _ => {
                                        let _: #partial::IgnoredAny = #partial::MapAccess::next_value(&mut __map)?;
                                    }
                                }
                            }
                            #runtime::Result::Ok(#ident {
                                #(#idents: #values.unwrap_or_else(#defaults),)*
                            })
                        }
                    }

                    #partial::Deserializer::deserialize_struct(
                        __deserializer,
                        #partial::name_of::<#full>(),
                        &[],
                        __Fields,
                    )
                }
            }

            #resource
        };
    }
}

/// A type with the struct's name instead of `Self`, which is the visitor where the type is repeated.
fn without_self(ty: TokenStream, ident: &Ident) -> TokenStream {
    let tokens = ty.into_iter().map(|token| match token {
        TokenTree::Ident(word) if word == "Self" => ident.clone().into(),
        TokenTree::Group(group) => {
            let mut plain = Group::new(group.delimiter(), without_self(group.stream(), ident));
            plain.set_span(group.span());
            plain.into()
        }
        token => token,
    });
    tokens.collect()
}

/// A struct with metadata is a kind: that of the full type.
fn resource(model: &Model, partial: &TokenStream) -> TokenStream {
    let Model { ident, full, .. } = model;
    let methods = ["kind", "group", "version", "api_version", "plural"].map(|method| format_ident!("{method}"));
    quote! {
        impl #partial::Resource for #ident {
            type DynamicType = ();
            type Scope = <#full as #partial::Resource>::Scope;

            #(fn #methods(__type: &()) -> #partial::Cow<'_, #partial::str> {
                <#full as #partial::Resource>::#methods(__type)
            })*

            fn meta(&self) -> &#partial::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut #partial::ObjectMeta {
                &mut self.metadata
            }
        }
    }
}
