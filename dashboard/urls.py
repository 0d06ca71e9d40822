from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, URLResolver, path
from django.views.generic import RedirectView

from dashboard.api.docs import docs
from dashboard.api.root import api
from dashboard.views import accounts, actions, datasets, gallery, health, home, new_dataset, people, run, training

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.home, name="home"),
    path("rows/", home.rows, name="rows"),
    path("datasets/", home.datasets, name="datasets"),
    path("datasets/new/", new_dataset.new_dataset, name="new_dataset"),
    path("datasets/new/differences", new_dataset.differences, name="new_dataset_differences"),
    path("datasets/<int:job_id>/", datasets.dataset, name="dataset"),
    path("datasets/<int:job_id>/gallery/", gallery.gallery, name="dataset_gallery"),
    path("datasets/<int:job_id>/images/<int:sample_id>/", gallery.image, name="dataset_image"),
    path("datasets/<int:job_id>/images/<int:sample_id>/original", gallery.original, name="dataset_original"),
    path("datasets/<int:job_id>/mean.png", gallery.mean_image, name="dataset_mean"),
    path("datasets/<int:job_id>/report/", gallery.report, name="dataset_report"),
    path("datasets/<int:job_id>/report.csv", gallery.report_csv, name="dataset_report_csv"),
    path("samples/import", actions.sample_import, name="sample_import"),
    path("datasets/<int:job_id>/again", actions.import_again, name="import_again"),
    path("datasets/<int:job_id>/train", actions.training_quick, name="training_quick"),
    path("jobs/<int:job_id>/edit", actions.job_edit, name="job_edit"),
    path("jobs/<int:job_id>/cancel", actions.job_end, name="job_cancel"),
    path("jobs/delete", actions.job_delete, name="job_delete"),
    path("runs/new", training.run_new, name="run_new"),
    path("runs/new/form", training.form_body, name="run_new_form"),
    path("runs/new/panel", training.panel, name="run_new_panel"),
    path("runs/new/previews", training.previews, name="run_new_previews"),
    path("runs/new/devices", training.device_loads, name="run_new_devices"),
    path("runs/<int:job_id>/", run.run, name="run"),
    path("runs/<int:job_id>/regions", run.run_regions, name="run_regions"),
    path("runs/<int:job_id>/log/<int:attempt>", run.run_log, name="run_log"),
    path("login/", accounts.SignIn.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("setup/", accounts.setup, name="setup"),
    path("invite/<str:token>/", accounts.invite, name="invite"),
    path("settings/account/", accounts.account, name="account"),
    path("settings/tokens/", people.tokens, name="tokens"),
    path("settings/tokens/<int:token_id>/revoke", people.token_end, name="token_revoke"),
    path("settings/users/", people.users, name="users"),
    path("settings/users/<int:user_id>/", people.user_change, name="user_change"),
    path("api/v1/", RedirectView.as_view(pattern_name="api_docs")),
    path("api/v1/docs", docs, name="api_docs"),
    path("api/v1/", api.urls),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
