"""Every address, but for event streams: those are answered before Django (chatapp/asgi.py)."""

from __future__ import annotations

from allauth.account import views as account
from django.contrib import admin
from django.urls import path, re_path

from chatapp import ops, views
from chatapp.api import api
from chatapp.api.failures import no_such_address

urlpatterns = [
    path("", views.home, name="home"),
    path("chats/new", views.chat_start, name="chat-start"),
    path("chats/<uuid:chat_id>/", views.chat, name="chat"),
    path("chats/<uuid:chat_id>/send", views.chat_send, name="chat-send"),
    path("responses/<str:response_id>/stop", views.response_stop, name="response-stop"),
    path("responses/<str:response_id>/retry", views.response_retry, name="response-retry"),
    # Only what a person with an account needs: nobody signs up here.
    path("account/login/", account.login, name="account_login"),
    path("account/logout/", account.logout, name="account_logout"),
    path("account/password/", account.password_change, name="account_change_password"),
    path("api/", api.urls),
    re_path(r"^api/", no_such_address),
    path("admin/", admin.site.urls),
    path("healthz", ops.healthz, name="healthz"),
    path("readyz", ops.readyz, name="readyz"),
]
