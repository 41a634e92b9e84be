"""Every address, but for event streams: those are answered before Django (chatapp/asgi.py)."""

from __future__ import annotations

from allauth.account import views as allauth
from allauth.mfa.base import views as steps
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as codes
from django.contrib import admin
from django.urls import path, re_path
from django.views.decorators.cache import never_cache

from chatapp import account, branch_views, chat_views, ops, picture_views, status_views, views
from chatapp.api import api
from chatapp.api.failures import no_such_address

urlpatterns = [
    path("", views.home, name="home"),
    path("chats/", chat_views.chat_list, name="chats"),
    path("chats/new", views.chat_start, name="chat-start"),
    path("chats/<uuid:chat_id>/", views.chat, name="chat"),
    path("chats/<uuid:chat_id>/send", views.chat_send, name="chat-send"),
    path("chats/<uuid:chat_id>/settings", chat_views.chat_settings, name="chat-settings"),
    path("chats/<uuid:chat_id>/pin", chat_views.chat_pin, name="chat-pin"),
    path("chats/<uuid:chat_id>/delete", chat_views.chat_delete, name="chat-delete"),
    path("chats/<uuid:chat_id>/restore", chat_views.chat_restore, name="chat-restore"),
    path("chats/<uuid:chat_id>/export.<str:kind>", chat_views.chat_export, name="chat-export"),
    path("responses/<str:response_id>/stop", views.response_stop, name="response-stop"),
    path("responses/<str:response_id>/retry", views.response_retry, name="response-retry"),
    path("messages/<int:message_id>/edit", branch_views.message_edit, name="message-edit"),
    path("messages/<int:message_id>/rewrite", branch_views.message_rewrite, name="message-rewrite"),
    path(
        "messages/<int:message_id>/regenerate",
        branch_views.message_regenerate,
        name="message-regenerate",
    ),
    path(
        "messages/<int:message_id>/continue",
        branch_views.message_continue,
        name="message-continue",
    ),
    path("messages/<int:message_id>/choose", branch_views.message_choose, name="message-choose"),
    path("pictures/<int:picture_id>", picture_views.picture, name="picture"),
    path("account/", account.account, name="account"),
    path("account/preferences", account.preferences, name="account-preferences"),
    path("account/keys", account.make_key, name="account-key-new"),
    path("account/keys/<int:key_id>/revoke", account.revoke_key, name="account-key-revoke"),
    path("account/sessions/end", account.end_other_sessions, name="account-sessions-end"),
    path("account/sessions/<int:session_id>/end", account.end_session, name="account-session-end"),
    path("account/data/", account.data, name="account-data"),
    path("account/data/export", account.export_data, name="account-data-export"),
    path("account/data/erase", account.erase, name="account-data-erase"),
    path("account/login/", allauth.login, name="account_login"),
    path("account/logout/", allauth.logout, name="account_logout"),
    path("account/inactive/", allauth.account_inactive, name="account_inactive"),
    path("account/signup/", allauth.signup, name="account_signup"),
    path("account/password/", allauth.password_change, name="account_change_password"),
    path("account/", account.account, name="mfa_index"),  # where allauth leads back to
    path("account/again/", allauth.reauthenticate, name="account_reauthenticate"),
    path("account/code/", steps.authenticate, name="mfa_authenticate"),
    path("account/code/again/", steps.reauthenticate, name="mfa_reauthenticate"),
    path("account/codes/", never_cache(codes.activate_totp), name="mfa_activate_totp"),
    path("account/codes/off/", codes.deactivate_totp, name="mfa_deactivate_totp"),
    path("account/recovery/", recovery.view_recovery_codes, name="mfa_view_recovery_codes"),
    path(
        "account/recovery/new/",
        recovery.generate_recovery_codes,
        name="mfa_generate_recovery_codes",
    ),
    path(
        "account/recovery/codes.txt",
        recovery.download_recovery_codes,
        name="mfa_download_recovery_codes",
    ),
    path("account/email/", allauth.email, name="account_email"),
    path(
        "account/email/sent/",
        allauth.email_verification_sent,
        name="account_email_verification_sent",
    ),
    re_path(
        r"^account/email/(?P<key>[-:\w]+)/$", allauth.confirm_email, name="account_confirm_email"
    ),
    path("account/forgotten/", account.forgotten, name="account_reset_password"),
    path(
        "account/forgotten/sent/", allauth.password_reset_done, name="account_reset_password_done"
    ),
    re_path(
        r"^account/forgotten/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        allauth.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path(
        "account/forgotten/done/",
        allauth.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    path("api/", api.urls),
    re_path(r"^api/", no_such_address),
    path("status/", status_views.status, name="status"),
    path("banners/<int:banner_id>/dismiss", status_views.dismiss, name="banner-dismiss"),
    path("admin/", admin.site.urls),
    path("healthz", ops.healthz, name="healthz"),
    path("readyz", ops.readyz, name="readyz"),
    path("metrics", ops.metrics, name="metrics"),
]

handler500 = "chatapp.ops.failed"
