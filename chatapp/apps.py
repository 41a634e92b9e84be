"""How the project joins Django: its checks, and how its static files are named."""

from __future__ import annotations

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage


class ChatappConfig(AppConfig):
    name = "chatapp"
    verbose_name = "Unbroken"

    def ready(self) -> None:
        from chatapp import checks
        from chatapp.auth import final, rights, second_step

        checks.register_all()
        second_step.keep_trail()
        rights.keep_trail()
        final.keep()


class SiteAdminConfig(AdminConfig):
    default_site = "chatapp.admin_site.Site"


class ModuleManifestStorage(ManifestStaticFilesStorage):
    """Hashed names, also in the import statements of our ES modules."""

    support_js_module_import_aggregation = True
    # One pass settles the names of one more floor of modules that import each other.
    max_post_process_passes = 12
