//! Requests the model list of a vendor: page by page, within limits, with the usual retries.

use reqwest::{Method, Request};
use serde_json::Value;

use super::super::ProviderError;
use super::super::codes::reported_error;
use super::super::dialect::Dialect;
use super::super::models::{Listing, MAX_MODELS, MAX_PAGES, ModelList};
use super::super::patience::Attempts;
use super::super::reading::parse;
use super::Remote;
use super::answer::Miss;
use super::client::below;
use haft_core::event::Events;

impl<D: Dialect> Remote<D> {
    /// Returns the models by name, with context windows and prices known here.
    pub(super) async fn list(&self) -> Result<ModelList, ProviderError> {
        let listing = self.dialect.api().listing;
        if !listing.is_public {
            self.require_key()?;
        }
        let mut models = Vec::new();
        let mut next = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = (listing.read)(&self.page(&listing, &next).await?);
            let page = page
                .map_err(|failure| self.error(&below(&self.base, listing.path), self.cleaned(failure), 1))?;
            let is_empty = page.models.is_empty();
            models.extend(page.models);
            next = page.next;
            if next.is_empty() || is_empty || models.len() >= MAX_MODELS {
                break;
            }
        }
        let is_cut = !next.is_empty();
        models.truncate(MAX_MODELS);
        models.sort_by(|first, second| first.name.cmp(&second.name));
        models.dedup_by(|first, second| first.name == second.name);
        for model in &mut models {
            model.context_window = model.context_window.or_else(|| self.published_window(&model.name));
            model.prices = self.settings.prices.get(&model.name).copied().or(model.prices);
        }
        Ok(ModelList { models, is_cut })
    }

    async fn page(&self, listing: &Listing, next: &[(&'static str, String)]) -> Result<Value, ProviderError> {
        let mut request = self.request(Method::GET, listing.path, None);
        {
            let mut query = request.url_mut().query_pairs_mut();
            query.extend_pairs(
                listing.query.iter().filter(|(key, _)| next.iter().all(|(other, _)| other != key)),
            );
            query.extend_pairs(next);
        }
        if request.url().query() == Some("") {
            request.url_mut().set_query(None);
        }
        let mut attempts = Attempts::new(self.settings.patience, false);
        loop {
            match self.page_once(request.try_clone()).await {
                Ok(page) => return Ok(page),
                Err(miss) => self.wait(request.url(), &mut attempts, miss, &Events::none()).await?,
            }
        }
    }

    async fn page_once(&self, request: Option<Request>) -> Result<Value, Miss> {
        let answer = self.send(request).await?;
        let bytes = answer.whole().await.map_err(|failure| self.cleaned(failure))?;
        let text = String::from_utf8_lossy(&bytes);
        let page = parse(self.redactor.redact(&text).as_bytes())?;
        reported_error(&page)?;
        Ok(page)
    }
}
